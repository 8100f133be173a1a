# SPDX-License-Identifier: Apache-2.0
"""Events of all workers in, a table out: for each thing that they did together, who was waited for, how long.

A collective begins for a worker when it is ready, and for all when the last one is. So what a worker spends
in it falls into two parts: waiting for the last, and moving data from then on. All workers take part in the
same order, so the n-th of one name in a step is the same for all. Times are put on the first worker's clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from joulelab.errors import InputError
from joulelab.records import ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from joulelab.records.layout import TrialFolder

COLUMNS: dict[str, Any] = {
    "name": pl.String,
    "epoch": pl.Int64,
    "step": pl.Int64,
    "number": pl.Int64,
    "workers": pl.Int64,
    "size_b": pl.Int64,
    "start_ns": pl.Int64,  # when the first was ready
    "waiting_s": pl.Float64,  # of the one that waited longest
    "waiting_mean_s": pl.Float64,
    "moving_s": pl.Float64,
    "last_rank": pl.Int64,
    "behind_s": pl.Float64,  # the last one behind the last but one
    "clock_error_s": pl.Float64,
}
EVENTS: dict[str, Any] = {
    "rank": pl.Int64,
    "kind": pl.String,
    "name": pl.String,
    "epoch": pl.Int64,
    "step": pl.Int64,
    "number": pl.Int64,
    "size_b": pl.Int64,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "clock_error_ns": pl.Int64,
}


def events(folder: TrialFolder) -> pl.DataFrame:
    """What each worker noted, on one clock. Kept by column: workers may be thousands."""
    found: dict[str, list[Any]] = {name: [] for name in EVENTS}
    for record in ranks.read(folder):
        for event in ranks.events(folder, record.rank):
            shift, error = offset_at(event.start_ns, record.clocks)
            later, _ = offset_at(event.end_ns, record.clocks)
            for name in ("kind", "name", "epoch", "step", "number", "size_b"):
                found[name].append(getattr(event, name))
            found["rank"].append(record.rank)
            found["start_ns"].append(event.start_ns + shift)
            found["end_ns"].append(event.end_ns + later)
            found["clock_error_ns"].append(error)
    return pl.DataFrame(found, schema=EVENTS)


def offset_at(time_ns: int, clocks: Sequence[Mapping[str, int]]) -> tuple[int, int]:
    """What to add to a worker's clock at that moment of it, and its error: drift goes in a straight line."""
    if not clocks:
        return 0, 0
    first, last = clocks[0], clocks[-1]
    span_ns = last["at_ns"] - first["at_ns"]
    error = max(first["error_ns"], last["error_ns"])
    if span_ns <= 0:
        return first["offset_ns"], error
    share = (time_ns - first["at_ns"]) / span_ns
    return round(first["offset_ns"] + share * (last["offset_ns"] - first["offset_ns"])), error


def collectives(folder: TrialFolder) -> pl.DataFrame:
    """One row for each thing that all workers did together, in the order of time."""
    noted = events(folder).filter(pl.col("kind") == "collective")
    if noted.is_empty():
        raise InputError(
            f"{folder.path} has no events of several workers",
            cure="train with workers = 2 or more, and timeline_every above 0",
        )
    workers = noted["rank"].n_unique()
    ordered = noted.sort("rank", "start_ns").with_columns(
        # A step may have several of one name, one after the other.
        pl.int_range(pl.len()).over("rank", "name", "epoch", "step", "number").alias("turn")
    )
    keys = ("name", "epoch", "step", "number", "turn")
    table = (
        ordered.group_by(keys)
        .agg(
            pl.len().alias("workers"),
            pl.col("size_b").max(),
            pl.col("start_ns").min().alias("start"),
            pl.col("start_ns").max().alias("last"),
            pl.col("start_ns").mean().alias("mean"),
            pl.col("start_ns").sort(descending=True).slice(1, 1).first().alias("second"),
            pl.col("end_ns").max().alias("end"),
            pl.col("rank").sort_by("start_ns").last().alias("last_rank"),
            (pl.col("clock_error_ns").max() * 1e-9).alias("clock_error_s"),
        )
        # One that a worker has no part in has been torn by a death: nothing can be said of it.
        .filter(pl.col("workers") == workers)
        .with_columns(
            pl.col("start").alias("start_ns"),
            ((pl.col("last") - pl.col("start")) * 1e-9).alias("waiting_s"),
            ((pl.col("last") - pl.col("mean")) * 1e-9).alias("waiting_mean_s"),
            # Clocks that are a little apart can let an end lie before the last start.
            (pl.max_horizontal(pl.col("end") - pl.col("last"), 0) * 1e-9).alias("moving_s"),
            ((pl.col("last") - pl.col("second")) * 1e-9).alias("behind_s"),
        )
        .sort("start_ns", "number")
    )
    return pl.DataFrame(table.select(COLUMNS.keys()).to_dicts(), schema=COLUMNS)


def by_name(folder: TrialFolder) -> pl.DataFrame:
    """The same, a row a name: how many, how long, and for whom they mostly waited."""
    return grouped(collectives(folder), by="name")


def grouped(table: pl.DataFrame, *, by: str) -> pl.DataFrame:
    """A row for each value of that column. Who was last, and how often, is of those where it is known."""
    often = pl.col("last_rank").drop_nulls().mode().sort().first()
    return table.group_by(by, maintain_order=True).agg(
        pl.len().alias("n"),
        pl.col("size_b").max(),
        pl.col("waiting_s").mean(),
        pl.col("waiting_s").max().alias("waiting_most_s"),
        pl.col("moving_s").mean(),
        often.alias("last_rank"),
        (pl.col("last_rank") == often).mean().alias("last_share"),
        pl.col("clock_error_s").max(),
    )


def of_rows(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """The table of what another tool noted, null where that says nothing."""
    return pl.DataFrame([dict(row) for row in rows], schema={"operation": pl.String, **COLUMNS})
