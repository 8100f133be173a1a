# SPDX-License-Identifier: Apache-2.0
"""For whom workers waited, as a table for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from joulelab.analysis.timeline import by_name, collectives
from joulelab.report.numbers import UNKNOWN, duration, percent, quantity
from joulelab.report.sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from joulelab.records.layout import TrialFolder

NOTES = (
    "waiting: from the first worker that was ready to the last, mean and most; moving: from then to the "
    "result; last: the worker that was mostly waited for, and how often it was",
    "of the training steps only some are noted: one in timeline_every",
)


def _size(row: Mapping[str, Any]) -> str:
    return UNKNOWN if row["size_b"] is None else quantity(row["size_b"], "B")


def _last(row: Mapping[str, Any]) -> str:
    if row["last_rank"] is None:
        return UNKNOWN
    return f"{row['last_rank']} ({percent(row['last_share'], digits=0)})"


COLUMNS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "together": lambda row: str(row["name"]),
    "n": lambda row: str(row["n"]),
    "size": _size,
    "waiting": lambda row: duration(row["waiting_s"]),
    "most": lambda row: duration(row["waiting_most_s"]),
    "moving": lambda row: duration(row["moving_s"]),
    "last": _last,
}


def drawn(
    rows: Iterable[Mapping[str, Any]], columns: Mapping[str, Callable[[Mapping[str, Any]], str]]
) -> Table:
    """One row for each kind of thing that all workers did together."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(cell(row) for cell in columns.values()))
    return table


def text(folder: TrialFolder, *, width: int = 0) -> str:
    """What the workers of a trial did together."""
    rows = by_name(folder).to_dicts()
    sheet = Sheet(width=width)
    workers = collectives(folder)["workers"].to_list()[0]
    sheet.console.print(f"{folder.path.name}: {workers} workers")
    sheet.console.print(drawn(rows, COLUMNS))
    error_s = max(row["clock_error_s"] for row in rows)
    clocks = f"clocks agree within {duration(error_s)}" if error_s else "all workers read one clock"
    for note in (*NOTES, clocks):
        sheet.console.print(note)
    return sheet.text()
