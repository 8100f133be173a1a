# SPDX-License-Identifier: Apache-2.0
"""A repeat that is stopped where it hurts, and goes on as a later attempt at the same trial would."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from joulelab.records import claim
from joulelab.records.layout import TrialFolder
from joulelab.train.checkpoint import Checkpoints
from joulelab.train.checkpoint_writer import Writer
from joulelab.train.loop import run_repeat
from joulelab.train.stopping import Stopping
from tests.train.train_parts import FakeMeter, Toy, job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from joulelab.records.trial import Repeat
    from joulelab.train.job import Job
    from joulelab.workloads.workload import Step, Workload

TIMES = {"time_s", "waiting_s"}  # of a line in metrics.jsonl: two runs never agree in them


class Crash(Exception):  # noqa: N818  what it is called elsewhere is not known
    """Whatever ended a process."""


class Slow(Toy):
    """Slow enough to be killed at a moment; draws from torch's own generator as dropout does."""

    def batches(self, epoch: int, generator: torch.Generator) -> Iterator[Any]:
        for batch in super().batches(epoch, generator):
            time.sleep(0.008)
            yield batch

    def loss(self, model: torch.nn.Module, batch: Any) -> Step:
        x, y = batch
        return super().loss(model, (x + 0.1 * torch.randn_like(x) * model.training, y))


def crashing(workload: type[Workload], *, after: int) -> type[Workload]:
    """The same workload, whose process ends in the batch that follows so many."""

    class Crashing(workload):  # type: ignore[misc, valid-type]
        trained = 0

        def loss(self, model: torch.nn.Module, batch: Any) -> Step:
            if model.training:
                self.trained += 1
                if self.trained > after:
                    raise Crash
            return super().loss(model, batch)  # type: ignore[no-any-return]

    return Crashing


class Patient(Writer):
    """Lets the training wait for what is being written, so that no checkpoint is left out."""

    @property
    def busy(self) -> bool:
        self.wait()
        return False


class Trial:
    """A trial folder, and attempts at its one repeat."""

    def __init__(
        self, path: Path, *, steps: int = 3, keep: int = 2, spec: str = "abc", rank: int = 0
    ) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.folder = TrialFolder(path)
        self.steps, self.keep, self.spec, self.rank = steps, keep, spec, rank
        self.stopping = Stopping()
        self.said: list[str] = []
        self.lines: list[dict[str, Any]] = []

    def attempt(self, asked: Job, meter: FakeMeter | None = None) -> Repeat:
        """One attempt, after whatever was left of the one before has been set aside."""
        claim.take(self.folder)
        self.folder.host.write_text("{}")
        self.lines = []
        kept = Checkpoints(
            folder=self.folder,
            spec=self.spec,
            steps=self.steps,
            every_s=0.0,
            keep=self.keep,
            stopping=self.stopping,
            say=self.said.append,
            tell=self.lines.append,
            rank=self.rank,
        )
        kept.writer = Patient(say=self.said.append)
        try:
            kept.begin(asked.index)
            one = replace(asked, checkpoints=kept)
            repeat = run_repeat(
                one,
                meter=FakeMeter() if meter is None else meter,
                on_epoch=kept.epoch,
                on_progress=lambda step: None,
            )
            return kept.end(repeat)
        finally:
            kept.close()
            claim.release(self.folder)

    def crash(self, asked: Job, *, after: int) -> None:
        """An attempt that ends after so many batches."""
        try:
            self.attempt(replace(asked, workload=crashing(asked.workload, after=after)))
        except Crash:
            return
        sys.exit("it was to crash and did not")  # no AssertionError, which `raises` might expect


def plain(asked: Job) -> tuple[Repeat, list[dict[str, Any]]]:
    """The same repeat without any checkpoint."""
    lines: list[dict[str, Any]] = []
    done = run_repeat(asked, meter=FakeMeter(), on_epoch=lines.append, on_progress=lambda step: None)
    return done, lines


def figures(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in line.items() if name not in TIMES} for line in lines]


def toy(**more: Any) -> Job:
    return job(**{"batch_size": 4, "epochs": 3, **more})
