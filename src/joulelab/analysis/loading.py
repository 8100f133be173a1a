# SPDX-License-Identifier: Apache-2.0
"""Records in, a table out: what each loader costs by phase, and what it saves against the original one.

Trials that differ in the loader alone are compared with each other; `saved` is a share of the whole repeat.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import polars as pl

from joulelab.analysis.phases import phases
from joulelab.analysis.trials import PHASES, TYPES, one_line, settings_of, trials
from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from joulelab.records.store import TrialRecord

ORIGINAL = "pandas"
PUBLISHED = "published"
# The original, its cure, and what is there today; others stand between, by name.
_FIRST, _LAST = (ORIGINAL, "pandas_chunked"), ("ours", "ours_cached")

# Wu et al. (2019): the most that reading in chunks saved, strong scaling on Summit; time, energy.
_PUBLISHED: dict[str, tuple[float, float | None]] = {
    "nt3": (0.6768, 0.5593),
    "p1b1": (0.7825, 0.78),
    "p1b2": (0.5545, 0.5544),
    "p1b3": (0.065, None),
}
COLUMNS: dict[str, Any] = {
    "workload": pl.String,
    "settings": pl.String,
    "host": pl.String,
    "loader": pl.String,
    "source": pl.String,
    "simulated": pl.Boolean,
    "n": pl.Int64,
    **{f"{phase}_{unit}": pl.Float64 for phase in PHASES for unit in ("time_s", "energy_j")},
    "time_s": pl.Float64,
    "time_ci_s": pl.Float64,
    "energy_j": pl.Float64,
    "energy_ci_j": pl.Float64,
    "energy_error_j": pl.Float64,
    "time_saved": pl.Float64,
    "time_saved_ci": pl.Float64,
    "energy_saved": pl.Float64,
    "energy_saved_ci": pl.Float64,
}

GROUP = ("workload", "settings", "host")

Row = dict[str, Any]


def loading(records: Sequence[TrialRecord]) -> pl.DataFrame:
    """One row a loader and group of equal settings, the published best of that workload below each group."""
    done = [record for record in records if record.state == "done" and record.spec.knobs.get("loader")]
    if not done:
        raise InputError(
            "no finished trial here has a loader", cure="joulelab study studies/loading.toml makes some"
        )
    groups: dict[tuple[str | None, ...], list[Row]] = {}
    for record in done:
        row = _row(record)
        groups.setdefault(tuple(row[name] for name in GROUP), []).append(row)
    rows = [row for group in groups.values() for row in _compared(group)]
    return pl.DataFrame(rows, schema=COLUMNS)


def _row(record: TrialRecord) -> Row:
    figures = trials([record]).select(TYPES.keys()).to_dicts()[0]
    row: Row = {name: figures.get(name) for name in COLUMNS}
    for part in phases([record]).to_dicts():
        if part["phase"] in PHASES:
            row[f"{part['phase']}_time_s"] = part["time_s"]
            row[f"{part['phase']}_energy_j"] = part["energy_j"]
    settings = settings_of(record.spec)
    row["workload"], row["loader"] = settings.pop("workload"), settings.pop("loader")
    row["settings"] = one_line(settings)
    return row


def _compared(group: Sequence[Row]) -> list[Row]:
    original = next((row for row in group if row["loader"] == ORIGINAL), None)
    rows = [row | _saved(row, original) for row in sorted(group, key=_place)]
    published = _PUBLISHED.get(group[0]["workload"])
    if published is not None:
        time_saved, energy_saved = published
        named = {name: group[0][name] for name in GROUP}
        figures = {"time_saved": time_saved, "energy_saved": energy_saved}
        rows.append({**dict.fromkeys(COLUMNS), **named, "loader": PUBLISHED, "source": "reported", **figures})
    return rows


def _place(row: Row) -> tuple[int, str]:
    loader = str(row["loader"])
    if loader in _FIRST:
        return _FIRST.index(loader), ""
    return (3 + _LAST.index(loader), "") if loader in _LAST else (2, loader)


def _saved(row: Row, original: Row | None) -> Row:
    if original is None or row is original:
        return {}
    found: Row = {}
    for what, unit in (("time", "s"), ("energy", "j")):
        if what == "energy" and row["source"] != original["source"]:
            continue  # energies of different sources do not compare
        left, spread = _ratio(row, original, value=f"{what}_{unit}", half=f"{what}_ci_{unit}")
        found |= {f"{what}_saved": None if left is None else 1.0 - left, f"{what}_saved_ci": spread}
    return found


def _ratio(
    row: Mapping[str, Any], original: Mapping[str, Any], *, value: str, half: str
) -> tuple[float | None, float | None]:
    """The ratio of two means, and half of its 95 % interval to first order."""
    mine, theirs = row[value], original[value]
    if mine is None or not theirs:
        return None, None
    ratio = mine / theirs
    if row[half] is None or original[half] is None:
        return ratio, None
    return ratio, math.hypot(row[half] / theirs, ratio * original[half] / theirs)
