# SPDX-License-Identifier: Apache-2.0
"""For whom the ranks of somebody's Horovod waited: its own timeline, in the same table as a trial's."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from joulelab.analysis.timeline import grouped, of_rows
from joulelab.integrations.horovod import Collective, Timeline, read
from joulelab.report import timeline
from joulelab.report.numbers import duration
from joulelab.report.sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

NOTES = (
    "waited: from the first rank that was ready to the last; moved: from then to the result; both are "
    "seconds in which that went on for at least one tensor, and rows may overlap; most: of one tensor",
    "last: the rank that was mostly waited for; Horovod says it only the first time that it sees a tensor",
)
COLUMNS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    **{name: timeline.COLUMNS[name] for name in ("together", "n", "size")},
    "waited": lambda row: duration(row["waited_s"]),
    "most": timeline.COLUMNS["most"],
    "moved": lambda row: duration(row["moved_s"]),
    "last": timeline.COLUMNS["last"],
}
UNTOLD = dict.fromkeys(("size_b", "waited_s", "waiting_most_s", "moved_s", "last_rank"))


def text(path: Path, *, width: int = 0) -> str:
    """A row for each operation, below it the parts of which moving is made, and a row for all of them."""
    found = read(path)
    sheet = Sheet(width=width)
    ranks = "ranks unknown" if found.ranks is None else f"{found.ranks} ranks"
    sheet.console.print(f"{path.name}: Horovod's timeline, {ranks}")
    sheet.console.print(timeline.drawn(_rows(found), COLUMNS))
    for note in (*NOTES, *_left_out(found)):
        sheet.console.print(note)
    return sheet.text()


def _rows(found: Timeline) -> Iterator[dict[str, Any]]:
    table = of_rows(asdict(row) for row in found.rows)
    each = {row["operation"]: row for row in grouped(table, by="operation").to_dicts()}
    for total in found.totals:
        means = each.get(total.operation, UNTOLD)
        wall = {"waited_s": total.waiting_s, "moved_s": total.moving_s}
        yield {**means, "name": total.operation, "n": total.n, **wall}
        if total.operation in each:
            for name, part in total.parts.items():
                yield {**UNTOLD, "name": f"  {name}", "n": part.n, "moved_s": part.moving_s}


def _left_out(found: Timeline) -> Iterator[str]:
    if found.torn:
        yield "the end of the file is missing: it was written by a run that was killed, or that still goes on"
    if found.unfinished:
        tensors = "a tensor" if found.unfinished == 1 else f"{found.unfinished} tensors"
        yield f"left out: what was going on with {tensors} when the record ended"


def to_json(path: Path) -> str:
    """A list of what the ranks did together, and one of the totals; unknown is null."""
    found = asdict(read(path))
    together = found.pop("rows")
    return json.dumps({**found, "together": together}, indent=1, ensure_ascii=False)


def to_csv(path: Path) -> str:
    """One line for each thing that the ranks did together; unknown is empty."""
    own = [field.name for field in fields(Collective)]
    return of_rows(asdict(row) for row in read(path).rows).select(own).write_csv().rstrip("\n")
