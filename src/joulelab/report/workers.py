# SPDX-License-Identifier: Apache-2.0
"""Where the time of each worker went, as a table for the terminal: not a row each, they may be thousands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table

from joulelab.analysis.timeline import collectives
from joulelab.analysis.workers import summary, workers
from joulelab.report import timeline
from joulelab.report.numbers import duration
from joulelab.report.sheet import Sheet

if TYPE_CHECKING:
    from joulelab.records.layout import TrialFolder


def text(folder: TrialFolder, *, width: int = 0) -> str:
    """The phases of all workers, and below them what they did together."""
    phases = _phases(folder, width=width)
    return f"{phases}\n{timeline.text(folder, width=width)}" if _has_events(folder) else phases


def _has_events(folder: TrialFolder) -> bool:
    return folder.ranks.is_dir() and any(folder.ranks.glob("*.events.jsonl"))


def _phases(folder: TrialFolder, *, width: int) -> str:
    """A row for each phase: the middle and the ends over all workers."""
    table = workers(folder)
    sheet = Sheet(width=width)
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("", "least", "worker", "median", "95 %", "most", "worker"):
        drawn.add_column(name, justify="right" if name else "left", no_wrap=True)
    for row in summary(table).to_dicts():
        times = [duration(row[name]) for name in ("least_s", "median_s", "p95_s", "most_s")]
        drawn.add_row(
            row["what"], times[0], str(row["least_rank"]), times[1], times[2], times[3], str(row["most_rank"])
        )
    hosts = table["host"].n_unique()
    sheet.console.print(f"{folder.path.name}: {table.height} workers on {hosts} machine{'s' * (hosts != 1)}")
    sheet.console.print(drawn)
    for row in table.filter(table["state"] != "done").head(10).to_dicts():
        sheet.console.print(f"worker {row['rank']} on {row['host']}: {row['state']}: {row['reason']}")
    sheet.console.print("seconds of a repeat, means over those measured; waiting: for the next batch")
    return sheet.text()


def to_json(folder: TrialFolder) -> str:
    """Two lists of objects: a worker each, and what they did together; unknown is null."""
    together = collectives(folder).to_dicts() if _has_events(folder) else []
    return json.dumps(
        {"workers": workers(folder).to_dicts(), "together": together}, indent=1, ensure_ascii=False
    )


def to_csv(folder: TrialFolder) -> str:
    """One line a worker; unknown is empty."""
    return workers(folder).write_csv().rstrip("\n")
