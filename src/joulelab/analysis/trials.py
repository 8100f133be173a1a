# SPDX-License-Identifier: Apache-2.0
"""Records in, a table out: one row a trial, means over its measured repeats, two kinds of error.

`energy_ci_j` is how far the mean may lie from that of many repeats (spread, 95 %, Student's t);
`energy_error_j` is how far the meter may have been off in each repeat (bound). Repeats do not reduce that.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import polars as pl

from joulelab.analysis.student import half_width, mean
from joulelab.errors import RecordError
from joulelab.records.trial import Repeat, Result, TrialSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from joulelab.records.store import TrialRecord

ACCURACIES = ("val_accuracy", "accuracy", "map50")
PHASES = ("load", "train", "evaluate")
TYPES: dict[str, Any] = {
    "trial": pl.String,
    "state": pl.String,
    "valid": pl.Boolean,
    "source": pl.String,
    "simulated": pl.Boolean,
    "small": pl.Boolean,
    "n": pl.Int64,
    "energy_j": pl.Float64,
    "energy_ci_j": pl.Float64,
    "energy_error_j": pl.Float64,
    "time_s": pl.Float64,
    "time_ci_s": pl.Float64,
    "power_w": pl.Float64,
    "accuracy": pl.Float64,
    "accuracy_ci": pl.Float64,
    "accuracy_figure": pl.String,
    "samples": pl.Int64,
    "j_per_sample": pl.Float64,
    "to_target_j": pl.Float64,
    "to_target_ci_j": pl.Float64,
    "to_target_epochs": pl.Float64,
    "missed_target": pl.Int64,
    "restarts": pl.Int64,
    "lost_j": pl.Float64,
    "lost_error_j": pl.Float64,
    "lost_s": pl.Float64,
    "waiting_share": pl.Float64,
    "waiting_j": pl.Float64,
    "load_share": pl.Float64,
    "train_share": pl.Float64,
    "evaluate_share": pl.Float64,
    "host": pl.String,
    "flags": pl.List(pl.String),
    "reason": pl.String,
    "path": pl.String,
}
UNKNOWN: dict[str, Any] = dict.fromkeys(TYPES) | {"n": 0, "flags": []}


def trials(records: Sequence[TrialRecord]) -> pl.DataFrame:
    """One row a trial: the settings that vary, then the columns of `TYPES`. Unknown is null, never zero."""
    rows = [_row(record) for record in records]
    settings = [_settings(record) for record in records]
    columns = [_column(name, [s.get(name) for s in settings]) for name in varying(records)]
    fixed = [pl.Series(name, [row[name] for row in rows], dtype=kind) for name, kind in TYPES.items()]
    return pl.DataFrame([*columns, *fixed])


def varying(records: Sequence[TrialRecord]) -> list[str]:
    """Names of the settings that differ among the records, in the order of their first appearance."""
    # A spec that cannot be read differs from the others in nothing that is known.
    settings = [known for record in records if (known := _settings(record))]
    names = dict.fromkeys(name for each in settings for name in each)
    return [name for name in names if len({str(each.get(name)) for each in settings}) > 1]


def _settings(record: TrialRecord) -> dict[str, Any]:
    try:
        return settings_of(record.spec)
    except RecordError:
        return {}


def settings_of(spec: TrialSpec) -> dict[str, Any]:
    """Everything that a spec asks for and that makes a trial another one, by name."""
    found: dict[str, Any] = {"workload": spec.workload}
    if spec.command:
        found["command"] = shlex.join(spec.command)
    # Seed and number of repeats are no settings whose effect is sought, but figures may differ by them.
    found |= {
        **spec.parameters,
        **spec.knobs,
        "repeats": spec.repeats,
        "warmup": spec.warmup,
        "seed": spec.seed,
    }
    found["devices"] = ", ".join(spec.devices) or None
    return {(f"{name}_setting" if name in TYPES else name): value for name, value in found.items()}


def one_line(settings: Mapping[str, Any]) -> str:
    """Settings for the head of a table; what was left empty is left out."""
    return " ".join(f"{name}={value}" for name, value in settings.items() if value not in (None, ""))


def _column(name: str, values: Sequence[Any]) -> pl.Series:
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and not kinds <= {int, float}:
        values = [None if value is None else str(value) for value in values]
    return pl.Series(name, values, strict=False)


def _row(record: TrialRecord) -> dict[str, Any]:
    row = UNKNOWN | {
        "trial": record.folder.path.name,
        "path": str(record.folder.path),
        "small": small(record),
    }
    try:
        state = row["state"] = record.state
        host = record.host.get("host")
        result = record.result if state == "done" else None
        row |= {"host": host, "reason": record.failure.get("reason") if state == "failed" else None}
    except RecordError as error:
        # One damaged record must not hide the others.
        return row | {"state": "damaged", "reason": error.message}
    if result is None:
        return row | ({"state": "damaged", "reason": "result.json is missing"} if state == "done" else {})
    return row | _figures(result)


def small(record: TrialRecord) -> bool | None:
    """Whether it is of the small variant of a study; None where the spec cannot be read."""
    try:
        return record.spec.small
    except RecordError:
        return None


def measured(result: Result) -> list[Repeat]:
    """The repeats that count: no warm-up, nothing invalid. A command has none, its total is one pass."""
    if not result.valid:
        return []
    if not result.repeats:
        whole = result.total()
        return [Repeat(index=1, seed=0, warmup=False, total=whole, phases={}, samples=0, epochs=0)]
    return [repeat for repeat in result.repeats if not repeat.warmup and repeat.valid]


def _figures(result: Result) -> dict[str, Any]:
    repeats = measured(result)
    bad = [repeat for repeat in result.repeats if not repeat.valid]
    reason = result.reason or "; ".join(dict.fromkeys(repeat.reason for repeat in bad))
    flags = list(dict.fromkeys(flag for repeat in repeats for flag in repeat.total.flags))
    base: dict[str, Any] = {
        "valid": result.valid and bool(repeats),
        "reason": reason or None,
        "n": len(repeats),
        **_restarts(result),
    }
    # Where no energy is known there is no source of it either.
    sources = {repeat.total.source for repeat in repeats if repeat.total.energy_j is not None}
    if not repeats:
        return base | {
            "flags": list(result.flags),
            "source": result.source if result.energy_j is not None else None,
            "simulated": simulated(result.flags),
        }
    accuracies = [value for repeat in repeats if (value := accuracy_of(repeat.metrics)) is not None]
    figures = base | {
        "source": "mixed" if len(sources) > 1 else next(iter(sources), None),
        "simulated": simulated(flags),
        "flags": flags,
        "time_s": mean([repeat.total.time_s for repeat in repeats]),
        "time_ci_s": half_width([repeat.total.time_s for repeat in repeats]),
        "accuracy": mean(accuracies),
        "accuracy_ci": half_width(accuracies),
        "accuracy_figure": accuracy_figure(repeats),
        "samples": round(mean([repeat.samples for repeat in repeats]) or 0) or None,
        **_waiting(repeats),
        **_target(repeats),
    }
    if figures["source"] == "mixed":
        figures["flags"] = [*flags, "its repeats have energies of different sources, so there is no mean"]
        return figures
    return figures | _energy(repeats)


def _energy(repeats: Sequence[Repeat]) -> dict[str, Any]:
    energies = known(repeat.total.energy_j for repeat in repeats)
    errors = known(repeat.total.energy_error_j for repeat in repeats)
    if energies is None:
        return {}
    total_j = sum(energies)
    time_s = sum(repeat.total.time_s for repeat in repeats)
    return {
        "energy_j": mean(energies),
        "energy_ci_j": half_width(energies),
        # Bounds may all point the same way, so their mean bounds the error of the mean.
        "energy_error_j": mean(errors) if errors is not None else None,
        "power_w": total_j / time_s if time_s > 0 else None,
        "j_per_sample": mean(j_per_sample(repeats)),
        **{f"{phase}_share": _share(repeats, phase, total_j=total_j) for phase in PHASES},
    }


def _share(repeats: Sequence[Repeat], phase: str, *, total_j: float) -> float | None:
    # The passes of an inference stand where evaluations stand elsewhere.
    names = (phase, "inference") if phase == "evaluate" else (phase,)
    of_phase = [repeat.phases[name] for repeat in repeats for name in names if name in repeat.phases]
    energies = known(measurement.energy_j for measurement in of_phase)
    if not energies or len(energies) != len(repeats) or total_j <= 0:
        return None
    return sum(energies) / total_j


def j_per_sample(repeats: Sequence[Repeat]) -> list[float]:
    """Of each repeat; nothing where one does not tell.

    What a picture costs to recognise does not depend on what loading cost; what it costs to learn does.
    """
    each = [(repeat.phases.get("inference", repeat.total).energy_j, repeat.samples) for repeat in repeats]
    return known(e / n if e is not None and n else None for e, n in each) or []


def _restarts(result: Result) -> dict[str, float | int | None]:
    """How often the trial went on after its process had gone, and what it had to do again; no mean, a sum."""
    lost = result.lost
    # Nothing lost is nought; lost and not known is null.
    return {
        "restarts": result.restarts,
        "lost_j": 0.0 if lost is None else lost.energy_j,
        "lost_error_j": 0.0 if lost is None else lost.energy_error_j,
        "lost_s": 0.0 if lost is None else lost.time_s,
    }


def _waiting(repeats: Sequence[Repeat]) -> dict[str, float | None]:
    """Of the training phase, the time spent waiting for data; its joules are that share of the phase's.

    A device draws less while it waits, so those joules are the most that waiting can have cost.
    """
    trained = [(repeat.waiting_s, repeat.phases.get("train")) for repeat in repeats]
    if any(waited is None or phase is None or phase.time_s <= 0 for waited, phase in trained):
        return {}
    shares = [(waited or 0.0) / phase.time_s for waited, phase in trained if phase is not None]
    energies = known(phase.energy_j for _, phase in trained if phase is not None)
    joules = [share * energy for share, energy in zip(shares, energies or [], strict=False)]
    return {"waiting_share": mean(shares), "waiting_j": mean(joules) if energies else None}


def _target(repeats: Sequence[Repeat]) -> dict[str, float | int | None]:
    """What it cost to reach the target. Where a repeat missed it there is no such figure."""
    asked = [repeat for repeat in repeats if repeat.reached is not None]
    if not asked:
        return {}
    missed = sum(not repeat.reached for repeat in asked)
    energies = known(repeat.total.energy_j for repeat in asked)
    if missed or len({repeat.total.source for repeat in asked}) > 1:
        return {"missed_target": missed}
    return {
        "missed_target": 0,
        "to_target_epochs": mean([repeat.epochs for repeat in asked]),
        "to_target_j": mean(energies) if energies else None,
        "to_target_ci_j": half_width(energies) if energies else None,
    }


def known(values: Any) -> list[float] | None:
    """The values, or None where one of them is unknown: a mean over the others would be of something else."""
    listed = list(values)
    return None if any(value is None for value in listed) else listed


def simulated(flags: Sequence[str]) -> bool:
    return any(flag.startswith("simulated") for flag in flags)


def accuracy_of(metrics: Mapping[str, float]) -> float | None:
    """The first of `ACCURACIES` that is there: on held-out data if it can be, of a detector its mAP."""
    return next((metrics[name] for name in ACCURACIES if name in metrics), None)


def accuracy_figure(repeats: Sequence[Repeat]) -> str | None:
    """Which figure the accuracy of these repeats is."""
    return next((name for each in repeats for name in ACCURACIES if name in each.metrics), None)
