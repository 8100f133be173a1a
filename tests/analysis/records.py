# SPDX-License-Identifier: Apache-2.0
"""Records with figures that a test gives, as files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from joulelab.records import store
from joulelab.records.layout import TrialFolder
from joulelab.records.measurement import Measurement
from joulelab.records.store import TrialRecord
from joulelab.records.trial import Repeat, TrialSpec, result_of

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.records.parameter import Scalar


def cost(
    energy_j: float | None, time_s: float = 10.0, *, source: str = "counter", flags: tuple[str, ...] = ()
) -> Measurement:
    error_j = None if energy_j is None else energy_j / 20
    return Measurement(time_s=time_s, energy_j=energy_j, energy_error_j=error_j, source=source, flags=flags)


def repeat(
    index: int, energy_j: float | None, *, warmup: bool = False, valid: bool = True, **total: Any
) -> Repeat:
    parts = {"load": 0.2, "train": 0.5, "evaluate": 0.2}
    whole = cost(energy_j, **total)
    phases = {
        name: cost(None if energy_j is None else part * energy_j, part * whole.time_s, source=whole.source)
        for name, part in parts.items()
    }
    return Repeat(
        index=index,
        seed=index,
        warmup=warmup,
        total=whole,
        phases=phases,
        samples=1000,
        epochs=2,
        metrics={"accuracy": 0.99, "val_accuracy": 0.9 + index / 100},
        valid=valid,
        reason="" if valid else "the loss was nan at step 3",
    )


def write(
    path: Path, knobs: dict[str, Scalar], *repeats: Repeat, valid: bool = True, **spec: Any
) -> TrialRecord:
    folder = TrialFolder(path)
    path.mkdir(parents=True)
    store.write_json(folder.spec, TrialSpec(workload="nt3", knobs=knobs, **spec))
    if repeats:
        reason = "" if valid else "the loss was nan at step 3"
        result = result_of(cost(100.0), state="done", repeats=repeats, valid=valid, reason=reason)
        store.write_json(folder.result, result)
        store.write_json(folder.host, {"schema": 1, "host": "machine-1", "cpu": "Some CPU", "cpu_usable": 2})
        folder.done.touch()
    return TrialRecord(folder)
