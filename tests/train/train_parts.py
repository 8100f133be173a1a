# SPDX-License-Identifier: Apache-2.0
"""A small workload that learns in milliseconds, workloads that go wrong, and a meter that counts windows."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import nn
from torch.nn import functional

from joulelab.records.measurement import Measurement
from joulelab.train.job import Job
from joulelab.train.precision import PRECISIONS
from joulelab.workloads.recipe import Recipe
from joulelab.workloads.workload import Setting, Step, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from joulelab.records.parameter import Scalar

KNOBS: dict[str, Scalar] = {
    "batch_size": 8,
    "epochs": 3,
    "learning_rate": 0.5,
    "precision": "fp32",
    "threads": 1,
}


class FakeWindow:
    """Costs one second and two joules of its own, whatever happens inside."""

    def __init__(self, meter: FakeMeter, name: str) -> None:
        self.meter = meter
        self.name = name

    def until(self, time_ns: int, /) -> Measurement:
        return Measurement(time_s=0.5, energy_j=1.0, energy_error_j=0.05, source="counter")

    def __enter__(self) -> FakeWindow:
        self.meter.events.append(f"{'  ' * self.meter.depth}{self.name}")
        self.meter.depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.meter.depth -= 1

    @property
    def measurement(self) -> Measurement:
        assert self.meter.depth <= self.meter.asked_at_depth, (
            "no figure is asked for while something is measured"
        )
        return Measurement(time_s=1.0, energy_j=2.0, energy_error_j=0.1, source="counter")


class FakeMeter:
    """Stands in for the meter where only the order of windows matters."""

    def __init__(self, *, out: Path | None = None, devices: tuple[str, ...] = ()) -> None:
        self.events: list[str] = []
        self.depth = 0
        self.asked_at_depth = 1  # a repeat is asked for inside the window of its trial
        self.closed = False

    def __enter__(self) -> FakeMeter:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def window(self, name: str) -> FakeWindow:
        return FakeWindow(self, name)

    def idle(self, seconds: float) -> Measurement:
        self.events.append("idle")
        return Measurement(time_s=seconds, energy_j=1.0, energy_error_j=0.1)

    def problems(self) -> list[dict[str, str]]:
        return [{"vendor": "rapl", "what": "no permission", "cure": "chmod a+r"}]

    def device_list(self) -> list[dict[str, Any]]:
        return [{"uid": "fake:0", "name": "a fake", "kind": "node", "source": "counter"}]


class Toy(Workload):
    """Logistic regression on 40 points that a line parts."""

    recipe = Recipe(summary="a toy", knobs=KNOBS)
    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)

    def load(self) -> None:
        points = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
        self.x = points.to(self.setting.dtype)
        self.y = (points[:, 0] > 0).long()

    def model(self) -> nn.Module:
        return nn.Linear(3, 2, dtype=self.setting.dtype)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=float(self.setting.knobs["learning_rate"]))

    def batches(self, epoch: int, generator: torch.Generator) -> Iterator[Any]:
        for rows in torch.split(
            torch.randperm(40, generator=generator), int(self.setting.knobs["batch_size"])
        ):
            yield self.x[rows], self.y[rows]

    def loss(self, model: nn.Module, batch: Any) -> Step:
        x, y = batch
        logits = model(x)
        hits = (logits.detach().argmax(1) == y).float().mean()
        return Step(functional.cross_entropy(logits, y), len(y), {"accuracy": hits})

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        logits = model(self.x)
        return {
            "val_loss": functional.cross_entropy(logits, self.y).item(),
            "val_accuracy": (logits.argmax(1) == self.y).double().mean().item(),
        }


class Overflowing(Toy):
    """Its loss is finite and its gradients are not: every step under loss scaling is skipped."""

    def loss(self, model: nn.Module, batch: Any) -> Step:
        step = super().loss(model, batch)
        # The gradient of a square root at nought is infinite, and the value is not.
        root = (model.weight * 0).abs().sum().sqrt()  # type: ignore[operator, union-attr]
        return Step(step.loss + root, step.samples, step.metrics)


class Fused(Toy):
    """Its optimizer hides from the loss scaling which steps it takes."""

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)


class Asked(Toy):
    """Can be asked for inference."""

    recipe = Recipe(summary="a toy", knobs={**KNOBS, "task": "train", "target": "", "accumulate": 1})

    def infer(self, model: nn.Module) -> int:
        assert not model.training
        model(self.x)
        return len(self.x)


class Telling(Asked):
    """Says what it does before it is measured, and what a reader must know of its data."""

    def prepare(self) -> None:
        self.setting.say("decoding: 0 of 2 images")

    def load(self) -> None:
        super().load()
        self.notes = ("1 of 2 images is left out",)


class Diverging(Toy):
    """Its loss is NaN from the third step of the second epoch."""

    steps = 0

    def loss(self, model: nn.Module, batch: Any) -> Step:
        step = super().loss(model, batch)
        self.steps += 1
        return Step(step.loss * (float("nan") if self.steps >= 8 else 1.0), step.samples, step.metrics)


class Reaching(Toy):
    """Ends when its target is reached."""

    def on_epoch_end(self, metrics: Mapping[str, float], optimizer: torch.optim.Optimizer) -> bool:
        return metrics["val_accuracy"] > 0.5


class Killed(Toy):
    """Is asked to stop in the second repeat."""

    repeats = 0

    def load(self) -> None:
        super().load()
        Killed.repeats += 1
        if Killed.repeats == 2:
            os.kill(os.getpid(), signal.SIGTERM)


class TooBig(Toy):
    def loss(self, model: nn.Module, batch: Any) -> Step:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 12.00 GiB")


class TooBigForFour(Toy):
    """Has memory for two samples, and no more."""

    def loss(self, model: nn.Module, batch: Any) -> Step:
        if len(batch[1]) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 12.00 GiB")
        return super().loss(model, batch)


class Wrong(Toy):
    def loss(self, model: nn.Module, batch: Any) -> Step:
        raise ValueError("a user's mistake")


def setting(**knobs: Any) -> Setting:
    chosen = {**KNOBS, **knobs}
    dtype = PRECISIONS[str(chosen["precision"])].dtype
    return Setting(parameters={}, knobs=chosen, data=Path("nowhere"), dtype=dtype)


def job(workload: type[Workload] = Toy, *, seed: int = 1, precision: str = "fp32", **knobs: Any) -> Job:
    chosen = setting(precision=precision, **knobs)
    return Job(
        workload=workload,
        setting=chosen,
        epochs=int(chosen.knobs["epochs"]),
        precision=precision,
        seed=seed,
        index=1,
        of=1,
        warmup=False,
    )
