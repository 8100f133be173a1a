# SPDX-License-Identifier: Apache-2.0
"""The comparison of loaders as tables for the terminal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from joulelab.analysis.loading import ORIGINAL, PUBLISHED, loading
from joulelab.analysis.trials import PHASES
from joulelab.report.machine import machines
from joulelab.report.numbers import UNKNOWN, duration, percent, quantity
from joulelab.report.sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from joulelab.records.store import TrialRecord

Row = dict[str, Any]


def text(records: Sequence[TrialRecord], *, width: int = 0) -> str:
    """A table for each group of trials that differ in the loader alone; every cell is time over energy."""
    rows = loading(records).to_dicts()
    sheet = Sheet(width=width)
    console = sheet.console
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["workload"], row["settings"], row["host"] or UNKNOWN), []).append(row)
    for (workload, settings, host), group in groups.items():
        console.print(f"{workload} on {host}: {settings}")
        console.print(_table(group))
        console.print()
    for place in machines(records):
        console.print(place)
    for note in notes(rows):
        console.print(note)
    return sheet.text()


def to_json(records: Sequence[TrialRecord]) -> str:
    """A list of objects, a row each; unknown is null."""
    return json.dumps(loading(records).to_dicts(), indent=1, ensure_ascii=False)


def to_csv(records: Sequence[TrialRecord]) -> str:
    """One line a row; unknown is empty."""
    return loading(records).write_csv().rstrip("\n")


def notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a reader of the tables must know, in words."""
    ns = sorted({row["n"] for row in rows if row["n"]})
    lines = [
        f"upper line time, lower line energy and its source: means of {' or '.join(map(str, ns))} repeats; "
        f"saved: share of the total against loader = {ORIGINAL!r}, ± 95 % interval"
    ]
    if any(row["source"] == "estimated" for row in rows):
        lines.append("estimated from CPU time: no energy sensor was used; run `joulelab doctor`")
    if any(row["simulated"] for row in rows):
        lines.append("simulated: these figures come from a fake or replayed device, not from this machine")
    if any(row["loader"] == PUBLISHED for row in rows):
        lines.append(
            "published: not measured here; the most that Wu et al. (2019) report for pandas_chunked, strong "
            "scaling to 384 GPUs of Summit"
        )
        lines.append(
            "today's pandas reads these files several times faster than the pandas of that study did, so the "
            "same cure saves less today, or nothing"
        )
    return lines


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("loader", no_wrap=True)
    for name in (*PHASES, "total", "saved"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        cells = [_pair(row, f"{phase}_time_s", f"{phase}_energy_j") for phase in PHASES]
        # Where the joules come from stands below each name: estimates and measurements must not look alike.
        source = (row["source"] or UNKNOWN) + (", simulated" if row["simulated"] else "")
        table.add_row(f"{row['loader']}\n  {source}", *cells, _total(row), _saved(row))
    return table


def _pair(row: Row, time: str, energy: str) -> str:
    return f"{duration(row[time])}\n{quantity(row[energy], 'J')}"


def _total(row: Row) -> str:
    return f"{duration(row['time_s'])}\n{quantity(row['energy_j'], 'J', error=row['energy_error_j'])}"


def _saved(row: Row) -> str:
    if row["loader"] == ORIGINAL:
        return ""
    return "\n".join(percent(row[f"{what}_saved"], row[f"{what}_saved_ci"]) for what in ("time", "energy"))
