# SPDX-License-Identifier: Apache-2.0
"""What more workers gain, as tables for the terminal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from joulelab.analysis.scaling import GROUP, scaling
from joulelab.report.machine import machines
from joulelab.report.numbers import UNKNOWN, duration, percent, quantity
from joulelab.report.sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from joulelab.records.store import TrialRecord

Row = dict[str, Any]
HEADS = (
    "time\npower",
    "load\nwait",
    "accu-\nracy",
    "energy\na worker",
    "speed-\nup",
    "efficiency\nin joules",
)


def text(records: Sequence[TrialRecord], *, width: int = 0) -> str:
    """A table for each group of trials that differ in the number of workers alone."""
    rows = scaling(records).to_dicts()
    sheet = Sheet(width=width)
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] or UNKNOWN for name in GROUP), []).append(row)
    for (workload, settings, host), group in groups.items():
        sheet.console.print(f"{workload} on {host}: {settings}")
        sheet.console.print(_table(group))
        sheet.console.print()
    for line in (*machines(records), *notes(rows)):
        sheet.console.print(line)
    return sheet.text()


def to_json(records: Sequence[TrialRecord]) -> str:
    """A list of objects, a row each; unknown is null."""
    return json.dumps(scaling(records).to_dicts(), indent=1, ensure_ascii=False)


def to_csv(records: Sequence[TrialRecord]) -> str:
    """One line a row; unknown is empty."""
    return scaling(records).write_csv().rstrip("\n")


def notes(rows: Sequence[Row]) -> list[str]:
    """What a reader of the tables must know, in words."""
    ns = sorted({row["n"] for row in rows if row["n"]})
    lines = [
        f"means of {' or '.join(map(str, ns))} repeats; energy of all workers ± bound of the meter's error; "
        "load, wait: shares of the time of the repeat, and of its training",
        "speed-up: samples a second against the fewest workers, ± 95 % interval; efficiency: that for each "
        "worker, and below it samples a joule against the fewest workers",
    ]
    if any(row["source"] == "estimated" for row in rows):
        lines.append("estimated from CPU time: no energy sensor was used; run `joulelab doctor`")
    if any(row["simulated"] for row in rows):
        lines.append("simulated: these figures come from a fake or replayed device, not from this machine")
    return lines


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("workers", no_wrap=True)
    for name in HEADS:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        source = (row["source"] or UNKNOWN) + (", simulated" if row["simulated"] else "")
        table.add_row(
            f"{row['workers']}\n  {source}",
            f"{duration(row['time_s'])}\n{quantity(row['power_w'], 'W')}",
            f"{percent(row['load_time_share'])}\n{percent(row['waiting_share'])}",
            UNKNOWN if row["accuracy"] is None else f"{row['accuracy']:.3f}",
            f"{quantity(row['energy_j'], 'J', error=row['energy_error_j'])}\n"
            f"{quantity(row['energy_per_worker_j'], 'J')}",
            _times(row["speedup"], row["speedup_ci"]),
            f"{percent(row['efficiency'], digits=0)}\n"
            f"{percent(row['energy_efficiency'], row['energy_efficiency_ci'], digits=0)}",
        )
    return table


def _times(value: float | None, half: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:.2f}" if half is None else f"{value:.2f}\n± {half:.2f}"
