# SPDX-License-Identifier: Apache-2.0
"""One repeat as it is asked for, and what training and inference do alike: windows, progress, shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import torch

from joulelab.errors import InputError, TrialError
from joulelab.records.measurement import Measurement
from joulelab.train.ranks import Ranks

if TYPE_CHECKING:
    from types import TracebackType

    from torch import nn

    from joulelab.records.parameter import Scalar
    from joulelab.train.checkpoint import Checkpoints
    from joulelab.train.precision import Precision
    from joulelab.workloads.workload import Setting, Workload

Tell = Callable[[dict[str, Any]], None]
COMPILE: dict[str, dict[str, Any]] = {
    "on": {},
    "reduce-overhead": {"mode": "reduce-overhead"},
    "max-autotune": {"mode": "max-autotune"},
}


class Window(Protocol):
    """What the loop needs of a window of the meter."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None: ...

    @property
    def measurement(self) -> Measurement: ...

    def until(self, time_ns: int, /) -> Measurement: ...


class Meter(Protocol):
    def window(self, name: str, /) -> Window: ...


@dataclass(frozen=True, kw_only=True)
class Job:
    """One repeat, decided in full before it starts."""

    workload: type[Workload]
    setting: Setting
    epochs: int
    precision: str
    seed: int
    index: int  # from 1, warm-ups included
    of: int
    warmup: bool
    ranks: Ranks = field(default_factory=Ranks)
    checkpoints: Checkpoints | None = None  # None: none is written, and none is looked for

    def place(self) -> dict[str, Any]:
        """What every line of progress says."""
        return {"repeat": self.index, "of": self.of, "warmup": self.warmup, "epochs": self.epochs}


class Phases:
    """The windows of a repeat by the name of their phase, in the order in which they were opened."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._windows: dict[str, list[Window]] = {}

    def __call__(self, name: str) -> Window:
        window = self._meter.window(name)
        self._windows.setdefault(name, []).append(window)
        return window

    def opened(self) -> list[tuple[str, Window]]:
        """All windows so far, each with the name of its phase."""
        return [(name, window) for name, of_phase in self._windows.items() for window in of_phase]

    def sums(self) -> dict[str, Measurement]:
        """What each phase cost. Ask when all windows have ended."""
        return {name: add_up([w.measurement for w in of_phase]) for name, of_phase in self._windows.items()}


def shaped(model: nn.Module, *, knobs: Mapping[str, Scalar], precision: Precision) -> nn.Module:
    """The model as the knobs want it to compute. Its class, its parameters and their values stay the same."""
    if knobs.get("memory_format") == "channels_last":
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    precision.fit(model)
    asked = str(knobs.get("compile", "off"))
    if asked != "off":
        model._compiled_call_impl = _or_in_words(  # noqa: SLF001  where Module.compile() puts it
            torch.compile(_plain(model.forward), dynamic=False, **COMPILE[asked])
        )
    return model


def _plain(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is no part of torch. `Module.compile()` hands the compiler torch's own code first, and
    where a network is torch's alone (a Sequential) it finds nothing else, and leaves it as it was, silently.

    Shapes are taken as they come: a last, smaller batch is compiled once more rather than all for any size.
    """

    def call(*given: Any, **named: Any) -> Any:
        return forward(*given, **named)

    return call


def _or_in_words(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Says what it means that the compiler has given up. That it raises at all is the doing of the knob."""
    from torch._dynamo import exc

    names = ("FailOnRecompileLimitHit", "RecompileLimitExceeded", "CacheLimitExceeded")  # by age of torch
    given_up = tuple(getattr(exc, name) for name in names if hasattr(exc, name))

    def call(*given: Any, **named: Any) -> Any:
        try:
            return compiled(*given, **named)
        except given_up as error:
            raise TrialError(
                "torch compiles no more variants of the network in this process and would go on uncompiled",
                cure="fewer shapes (batch sizes, sizes of picture) in one trial, or compile = 'off'; "
                "TORCH_LOGS=recompiles says what differs",
            ) from error

    return call


def told(total: Measurement) -> dict[str, Any]:
    """Joules for a line of progress, with what they come from."""
    simulated = any(flag.startswith("simulated") for flag in total.flags)
    return {"energy_j": total.energy_j, "source": total.source + ", simulated" * simulated}


def add_up(measurements: Sequence[Measurement]) -> Measurement:
    """The sum of windows. Where a sensor was lost half-way there is no sum to give, and a flag says so."""
    total = measurements[0]
    for measurement in measurements[1:]:
        try:
            total += measurement
        except InputError:
            return Measurement(
                time_s=sum(m.time_s for m in measurements),
                energy_j=None,
                energy_error_j=None,
                source=measurements[0].source,
                flags=("its windows have energies from different sources, which make no sum",),
            )
    return total


def noted(total: Measurement, notes: Sequence[str]) -> Measurement:
    """What a repeat cost, with what must be known of its data beside what must be known of its energy."""
    return msgspec.structs.replace(total, flags=tuple(dict.fromkeys((*total.flags, *notes))))


def shown(figures: Mapping[str, float]) -> dict[str, float]:
    """Of the figures, those that a line of progress has room for: held-out ones where there are any."""
    shown = {name: figures.get(f"val_{name}", figures.get(name)) for name in ("loss", "accuracy")}
    return {name: value for name, value in shown.items() if value is not None and math.isfinite(value)}
