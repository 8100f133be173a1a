# SPDX-License-Identifier: Apache-2.0
"""Records in, a table out: what more workers gain, in seconds and in joules.

Trials that differ in the number of workers alone are compared with the one that has fewest. Work is counted
in training samples, so it holds for a fixed amount of work (strong scaling) and for one that grows (weak).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from joulelab.analysis.student import change, mean
from joulelab.analysis.trials import TYPES, measured, one_line, settings_of, trials
from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from joulelab.records.store import TrialRecord
    from joulelab.records.trial import Repeat

COLUMNS: dict[str, Any] = {
    "workload": pl.String,
    "settings": pl.String,
    "host": pl.String,
    "workers": pl.Int64,
    "source": pl.String,
    "simulated": pl.Boolean,
    "n": pl.Int64,
    "epochs": pl.Float64,
    "samples": pl.Int64,
    "time_s": pl.Float64,
    "time_ci_s": pl.Float64,
    "load_time_share": pl.Float64,
    "waiting_share": pl.Float64,
    "accuracy": pl.Float64,
    "accuracy_ci": pl.Float64,
    "power_w": pl.Float64,
    "energy_j": pl.Float64,
    "energy_ci_j": pl.Float64,
    "energy_error_j": pl.Float64,
    "energy_per_worker_j": pl.Float64,
    "speedup": pl.Float64,
    "speedup_ci": pl.Float64,
    "efficiency": pl.Float64,
    "energy_efficiency": pl.Float64,
    "energy_efficiency_ci": pl.Float64,
}
GROUP = ("workload", "settings", "host")

Row = dict[str, Any]


def scaling(records: Sequence[TrialRecord]) -> pl.DataFrame:
    """One row a number of workers and group of otherwise equal settings."""
    done = [record for record in records if record.state == "done" and _is_real(record)]
    if not done:
        raise InputError(
            "no finished trial here has a number of workers",
            cure="joulelab study studies/wu_strong_nt3.toml --small makes some; emulated ones do not count",
        )
    groups: dict[tuple[str | None, ...], list[tuple[Row, list[Repeat]]]] = {}
    for record in done:
        row = _row(record)
        assert record.result is not None
        groups.setdefault(tuple(row[name] for name in GROUP), []).append((row, measured(record.result)))
    rows = [row for group in groups.values() for row in _compared(group)]
    return pl.DataFrame(rows, schema=COLUMNS)


def _is_real(record: TrialRecord) -> bool:
    """Emulated workers make the same updates, but their time and energy are those of one device."""
    knobs = record.spec.knobs
    return "workers" in knobs and not knobs.get("emulated") and record.result is not None


def _row(record: TrialRecord) -> Row:
    figures = trials([record]).select(TYPES.keys()).to_dicts()[0]
    row: Row = {name: figures.get(name) for name in COLUMNS}
    settings = settings_of(record.spec)
    row["workload"], row["workers"] = settings.pop("workload"), settings.pop("workers")
    row["settings"] = one_line(settings)
    return row


def _compared(group: Sequence[tuple[Row, list[Repeat]]]) -> list[Row]:
    ordered = sorted(group, key=lambda each: each[0]["workers"])
    fewest, base = ordered[0]
    return [row | _own(row, repeats) | _gain(row, repeats, fewest, base) for row, repeats in ordered]


def _own(row: Row, repeats: Sequence[Repeat]) -> Row:
    loads = [
        each.phases["load"].time_s / each.total.time_s
        for each in repeats
        if "load" in each.phases and each.total.time_s > 0
    ]
    energy_j = row["energy_j"]
    return {
        "epochs": mean([each.epochs for each in repeats]),
        "load_time_share": mean(loads),
        "energy_per_worker_j": None if energy_j is None else energy_j / row["workers"],
    }


def _gain(row: Row, repeats: Sequence[Repeat], fewest: Row, base: Sequence[Repeat]) -> Row:
    more = row["workers"] / fewest["workers"]
    faster, faster_ci = change(_rates(repeats), _rates(base), share=True)
    found: Row = {"speedup": None if faster is None else 1.0 + faster, "speedup_ci": faster_ci}
    found["efficiency"] = None if faster is None else (1.0 + faster) / more
    if row["source"] == fewest["source"]:  # energies of different sources do not compare
        thriftier, ci = change(_yields(repeats), _yields(base), share=True)
        found["energy_efficiency"] = None if thriftier is None else 1.0 + thriftier
        found["energy_efficiency_ci"] = ci
    return found


def _rates(repeats: Sequence[Repeat]) -> list[float]:
    """Samples a second of the whole repeat, loading included."""
    return [each.samples / each.total.time_s for each in repeats if each.total.time_s > 0]


def _yields(repeats: Sequence[Repeat]) -> list[float]:
    """Samples a joule."""
    return [each.samples / each.total.energy_j for each in repeats if each.total.energy_j]
