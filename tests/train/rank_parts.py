# SPDX-License-Identifier: Apache-2.0
"""Toys whose rows are dealt out, and some that go wrong in one worker of several."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any, ClassVar

from torch import nn

from joulelab.workloads import share
from joulelab.workloads.recipe import EMULATED, Recipe
from joulelab.workloads.workload import Step
from tests.train.train_parts import KNOBS, Toy

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch


class Dealt(Toy):
    recipe: ClassVar[Recipe] = Recipe(
        summary="a toy for many", knobs={**KNOBS, "accumulate": 1}, quiet=EMULATED
    )

    def batches(self, epoch: int, generator: torch.Generator) -> Iterator[Any]:
        for rows in share.batches(40, int(self.setting.knobs["batch_size"]), generator, self.setting):
            yield self.x[rows], self.y[rows]


class Failing(Dealt):
    """The second worker cannot read its file."""

    def load(self) -> None:
        super().load()
        if self.setting.rank == 1:
            raise ValueError("row 7 of the file is torn")


class Killed(Dealt):
    """The second worker is killed in the middle of a step."""

    def loss(self, model: nn.Module, batch: Any) -> Step:
        if self.setting.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().loss(model, batch)


class FirstKilled(Dealt):
    def loss(self, model: nn.Module, batch: Any) -> Step:
        if self.setting.rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().loss(model, batch)


class NotFinite(Dealt):
    """One worker's loss is not a number in the last step of an epoch, too late for the other to see it."""

    def batches(self, epoch: int, generator: torch.Generator) -> Iterator[Any]:
        all_of_them = list(super().batches(epoch, generator))
        for number, batch in enumerate(all_of_them, start=1):
            self.last = number == len(all_of_them) and epoch == 2 and self.setting.rank == 1
            yield batch

    def loss(self, model: nn.Module, batch: Any) -> Step:
        step = super().loss(model, batch)
        return Step(step.loss * (float("nan") if self.last else 1.0), step.samples, step.metrics)


class Endless(Dealt):
    """Says when it trains, and goes on until somebody stops it."""

    def batches(self, epoch: int, generator: torch.Generator) -> Iterator[Any]:
        if epoch == 1:
            self.setting.data.mkdir(parents=True, exist_ok=True)
            (self.setting.data / f"trains-{self.setting.rank}").touch()
        while True:
            yield from super().batches(epoch, generator)


class Late(Dealt):
    """The second worker reads its files for half a second longer. Each notes when it was done."""

    def load(self) -> None:
        super().load()
        time.sleep(0.5 * self.setting.rank)
        self.note("loaded")

    def model(self) -> nn.Module:
        made = super().model()
        self.note("made")
        return made

    def note(self, what: str) -> None:
        now_ns = time.monotonic_ns()
        self.setting.data.mkdir(parents=True, exist_ok=True)
        (self.setting.data / f"{what}-{self.setting.rank}").write_text(str(now_ns))


class Wide(Dealt):
    """Its gradients are 480 kB in one bucket: to send them takes time."""

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(3, 20_000), nn.Linear(20_000, 2))


class Unlike(Dealt):
    """The second worker's machine has another copy of the file."""

    def sources(self) -> str:
        return f"a.csv of {100 + self.setting.rank} bytes"


class Slow(Dealt):
    """Takes its time over each batch."""

    def loss(self, model: nn.Module, batch: Any) -> Step:
        time.sleep(0.05)
        return super().loss(model, batch)
