# SPDX-License-Identifier: Apache-2.0
"""One repeat of a trial, from fresh weights to its figures, top to bottom."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

from joulelab.errors import InputError
from joulelab.records.measurement import Measurement
from joulelab.records.trial import Repeat
from joulelab.train.precision import precision as make_precision
from joulelab.train.tape import Tape

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from joulelab.workloads.workload import Setting, Workload

PHASES = ("load", "train", "evaluate")

Tell = Callable[[dict[str, Any]], None]


class Window(Protocol):
    """What the loop needs of a window of the meter."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None: ...

    @property
    def measurement(self) -> Measurement: ...


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


def run_repeat(job: Job, *, meter: Meter, on_epoch: Tell, on_progress: Tell) -> Repeat:
    """Load, train, evaluate. `on_epoch` is given the line for metrics.jsonl, `on_progress` what to show."""
    torch.manual_seed(job.seed)
    # The order of the samples has a generator of its own: dropout in a model must not change what it is
    # shown.
    order = torch.Generator().manual_seed(job.seed)
    workload = job.workload(job.setting)
    precision = make_precision(job.precision, device=job.setting.device)
    tape = Tape(workload.metrics, device=job.setting.device, dtype=precision.dtype)
    here = {"repeat": job.index, "of": job.of, "warmup": job.warmup, "epochs": job.epochs}
    windows: dict[str, list[Window]] = {name: [] for name in PHASES}
    figures: dict[str, float] = {}
    wrong = ""  # the first thing that makes the figures worthless, in words
    epoch = 0
    started_s = time.monotonic()

    def phase(name: str) -> AbstractContextManager[object]:
        windows[name].append(meter.window(name))
        return windows[name][-1]

    whole = meter.window("repeat")
    with whole:
        # ---- load ------------------------------------------------------------------------------------------
        on_progress({**here, "phase": "load"})
        with phase("load"):
            workload.load()

        # Making the model belongs to no phase: it is in the total only.
        model = workload.model()
        optimizer = workload.optimizer(model)
        precision.watch(optimizer)

        for epoch in range(1, job.epochs + 1):
            with meter.window("epoch"):
                # ---- train ---------------------------------------------------------------------------------
                on_progress({**here, "phase": "train", "epoch": epoch, **_shown(figures)})
                with phase("train"):
                    model.train()
                    for batch in workload.batches(epoch, order):
                        with precision.autocast():
                            step = workload.loss(model, batch)
                        precision.step(step.loss, optimizer)
                        workload.on_step_end(model, optimizer, step=precision.attempted)
                        # Nothing here waits for the device: the tape and the scaler's own check do so when
                        # they must.
                        wrong = tape.put(step)
                        if wrong:
                            break
                    # Inside the window, because fetching the last losses waits for the last step.
                    figures, wrong_at_end = tape.end_epoch()
                wrong = wrong or wrong_at_end or precision.complaint(finished=epoch == job.epochs)

                # ---- evaluate ------------------------------------------------------------------------------
                if not wrong:
                    on_progress({**here, "phase": "evaluate", "epoch": epoch, **_shown(figures)})
                    with phase("evaluate"):
                        model.eval()
                        with torch.no_grad(), precision.autocast():
                            figures |= workload.evaluate(model)
                    wrong = _not_finite(figures, epoch=epoch)

            # ---- what was learnt ---------------------------------------------------------------------------
            on_epoch(
                {
                    "repeat": job.index,
                    "warmup": job.warmup,
                    "epoch": epoch,
                    **figures,
                    "skipped_steps": precision.skipped,
                    "time_s": time.monotonic() - started_s,
                }
            )
            # Stopped at once: what a run costs that does not learn is of no use to anybody.
            if wrong or workload.on_epoch_end(figures, optimizer):
                break

    # Only now are the windows asked for their figures: the answer is awaited, and nothing is being measured
    # here. A target reached early ends the run before `finished` was ever said.
    wrong = wrong or precision.complaint(finished=True)
    total = whole.measurement
    on_progress(
        {
            **here,
            "phase": "end",
            "epoch": epoch,
            "energy_j": total.energy_j,
            "source": total.source,
            **_shown(figures),
        }
    )
    return Repeat(
        index=job.index,
        seed=job.seed,
        warmup=job.warmup,
        total=total,
        phases={
            name: add_up([w.measurement for w in of_phase]) for name, of_phase in windows.items() if of_phase
        },
        samples=tape.samples,
        epochs=epoch,
        metrics={name: value for name, value in figures.items() if math.isfinite(value)},
        skipped_steps=precision.skipped,
        valid=not wrong,
        reason=wrong,
    )


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
                flags=("the source of the energy changed between its windows",),
            )
    return total


def _not_finite(figures: Mapping[str, float], *, epoch: int) -> str:
    bad = [f"{name} was {value}" for name, value in figures.items() if not math.isfinite(value)]
    return f"{', '.join(bad)} after epoch {epoch}" if bad else ""


def _shown(figures: Mapping[str, float]) -> dict[str, float]:
    """Of the figures, those that a line of progress has room for: held-out ones where there are any."""
    shown = {name: figures.get(f"val_{name}", figures.get(name)) for name in ("loss", "accuracy")}
    return {name: value for name, value in shown.items() if value is not None and math.isfinite(value)}
