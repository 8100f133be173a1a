# SPDX-License-Identifier: Apache-2.0
"""Records of a trial's workers in, a table out: where the time of each went, and who differs from the rest.

Time is each worker's own. Energy is not in it: a machine's meter cannot tell its workers apart, but for
accelerators of which each worker has its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from joulelab.errors import InputError
from joulelab.records import ranks

if TYPE_CHECKING:
    from joulelab.records.layout import TrialFolder

COLUMNS: dict[str, Any] = {
    "rank": pl.Int64,
    "host": pl.String,
    "device": pl.String,
    "state": pl.String,
    "reason": pl.String,
    "repeats": pl.Int64,
    "time_s": pl.Float64,
    "load_s": pl.Float64,
    "train_s": pl.Float64,
    "evaluate_s": pl.Float64,
    "waiting_s": pl.Float64,
}
TIMES = ("time_s", "load_s", "train_s", "evaluate_s", "waiting_s")


def workers(folder: TrialFolder) -> pl.DataFrame:
    """One row a worker: means over its measured repeats."""
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for record in ranks.read(folder):
        measured = [each for each in record.repeats if not each.warmup] or list(record.repeats)
        for name in ("rank", "host", "device", "state", "reason"):
            columns[name].append(getattr(record, name))
        columns["repeats"].append(len(measured))
        columns["time_s"].append(_mean([each.total.time_s for each in measured]))
        for phase in ("load", "train", "evaluate"):
            times = [each.phases[phase].time_s for each in measured if phase in each.phases]
            columns[f"{phase}_s"].append(_mean(times))
        columns["waiting_s"].append(
            _mean([each.waiting_s for each in measured if each.waiting_s is not None])
        )
    if not columns["rank"]:
        raise InputError(
            f"{folder.path} has no records of several workers", cure="train with workers = 2 or more"
        )
    return pl.DataFrame(columns, schema=COLUMNS)


def summary(table: pl.DataFrame) -> pl.DataFrame:
    """For each time: the middle, the ends, and the worker at each end."""
    rows = []
    for name in TIMES:
        known = table.filter(pl.col(name).is_not_null()).sort(name)
        if known.is_empty():
            continue
        rows.append(
            {
                "what": name.removesuffix("_s"),
                "least_s": known[name][0],
                "least_rank": known["rank"][0],
                "median_s": known[name].median(),
                "p95_s": known[name].quantile(0.95, "linear"),
                "most_s": known[name][-1],
                "most_rank": known["rank"][-1],
            }
        )
    return pl.DataFrame(rows)


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
