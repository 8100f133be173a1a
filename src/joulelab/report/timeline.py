# SPDX-License-Identifier: Apache-2.0
"""For whom workers waited, as a table for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table

from joulelab.analysis.timeline import by_name, collectives
from joulelab.report.numbers import UNKNOWN, duration, percent, quantity
from joulelab.report.sheet import Sheet

if TYPE_CHECKING:
    from joulelab.records.layout import TrialFolder

NOTES = (
    "waiting: from the first worker that was ready to the last, mean and most; moving: from then to the "
    "result; last: the worker that was mostly waited for, and how often it was",
    "of the training steps only some are noted: one in timeline_every",
)


def text(folder: TrialFolder, *, width: int = 0) -> str:
    """One row for each kind of thing that all workers did together."""
    rows = by_name(folder).to_dicts()
    sheet = Sheet(width=width)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("together", "n", "size", "waiting", "most", "moving", "last"):
        table.add_column(name, justify="left" if name == "together" else "right", no_wrap=True)
    for row in rows:
        table.add_row(
            row["name"],
            str(row["n"]),
            UNKNOWN if row["size_b"] is None else quantity(row["size_b"], "B"),
            duration(row["waiting_s"]),
            duration(row["waiting_most_s"]),
            duration(row["moving_s"]),
            f"{row['last_rank']} ({percent(row['last_share'], digits=0)})",
        )
    workers = collectives(folder)["workers"].to_list()[0]
    sheet.console.print(f"{folder.path.name}: {workers} workers")
    sheet.console.print(table)
    error_s = max(row["clock_error_s"] for row in rows)
    clocks = f"clocks agree within {duration(error_s)}" if error_s else "all workers read one clock"
    for note in (*NOTES, clocks):
        sheet.console.print(note)
    return sheet.text()
