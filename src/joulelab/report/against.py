# SPDX-License-Identifier: Apache-2.0
"""The comparison with a reference as a table for the terminal, as CSV, and as JSON."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from joulelab.analysis.against import TYPES, against
from joulelab.errors import InputError
from joulelab.report import fit, table
from joulelab.report.numbers import UNKNOWN, duration, quantity, setting
from joulelab.report.sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from joulelab.records.store import TrialRecord

Row = dict[str, Any]
UNSEEN = "no difference\nseen"
NO_INTERVAL = "no interval"
GIVING = ("j_per_sample", "time_s")  # what gives way first where the terminal is narrow
# A comma parts two settings only where a name and = follow: values may hold commas.
_BETWEEN = re.compile(r",(?=\s*\w+=)")


def parse(text: str) -> dict[str, str]:
    """KEY=VALUE,KEY=VALUE as a command line has it."""
    pairs = [part.partition("=") for part in _BETWEEN.split(text)]
    if any(not equals or not name.strip() for name, equals, _ in pairs):
        raise InputError(
            f"--against {text!r} is not KEY=VALUE[,KEY=VALUE]", cure="for example --against batch_size=256"
        )
    return {name.strip(): value.strip() for name, _, value in pairs}


def text(
    records: Sequence[TrialRecord],
    reference: Mapping[str, object],
    *,
    apart: Collection[str] = (),
    lists: Mapping[str, Sequence[object]] | None = None,
    width: int = 0,
) -> str:
    """A row a trial; trials named in `apart` (no longer in the study's plan) do not enter."""
    inside = [record for record in records if record.folder.path.name not in apart]
    rows = against(inside, reference, lists=lists).to_dicts()
    sheet = Sheet(width=width)
    console = sheet.console
    named = ", ".join(f"{name}={setting(value)}" for name, value in reference.items())
    console.print(f"Against {named}, all else alike: change ± half of its 95 % interval")
    console.print()
    shown, narrow = fit.fitted(console, lambda without: _table(rows, without=without), giving=GIVING)
    console.print(shown)
    console.print()
    heads = [" ".join(head.split()) for figure, head in _columns(rows) if figure in narrow]
    for note in [*notes(rows, left_out=len(inside) - len(rows)), *fit.said(heads)]:
        console.print(note)
    return sheet.text()


def with_table(
    records: Sequence[TrialRecord],
    *,
    asked: str = "",
    said: Mapping[str, object],
    sort: str = "",
    apart: Collection[str] = (),
    lists: Mapping[str, Sequence[object]] | None = None,
) -> str:
    """The table of the trials, and the comparison below it: what is asked for, or what their study says."""
    parts = [table.text(records, sort=sort, apart=apart, lists=lists)]
    if asked:
        parts.append(text(records, parse(asked), apart=apart, lists=lists))
    elif said:
        try:
            parts.append(text(records, said, apart=apart, lists=lists))
        except InputError as error:
            # Nobody has asked just now: the reference may only not have run yet.
            parts.append(f"nothing to compare yet: {error.message}")
    return "\n\n".join(parts) + ("\n" if len(parts) > 1 else "")


def to_json(records: Sequence[TrialRecord], reference: Mapping[str, object]) -> str:
    """A list of objects, a row each; unknown is null."""
    return json.dumps(against(records, reference).to_dicts(), indent=1, ensure_ascii=False)


def to_csv(records: Sequence[TrialRecord], reference: Mapping[str, object]) -> str:
    """One line a row; unknown is empty."""
    return against(records, reference).write_csv().rstrip("\n")


def notes(rows: Sequence[Row], *, left_out: int) -> list[str]:
    """What a reader of the table must know, in words."""
    changes = [
        (row[f"{figure}_change"], row[f"{figure}_change_ci"]) for row in rows for figure, _ in _columns(rows)
    ]
    lines = []
    if any(half is not None for _, half in changes):
        ns = sorted({row[name] for row in rows for name in ("n", "n_reference") if row[name]})
        lines.append(
            f"intervals: from the spread of {' or '.join(map(str, ns))} repeats a side (Welch); one that "
            "holds zero shows no difference. What the meter gets wrong for all trials alike cancels out; "
            "other work on the machine during one trial is in its change, and in no interval"
        )
    if any(found is not None and half is None for found, half in changes):
        lines.append("one repeat tells no spread, so there is no interval: `repeats = 3` gives one")
    if any(row["other_source"] for row in rows):
        lines.append("energies of different sources, or simulated and real ones, are not compared")
    if any(row["accuracy_figure"] == "map50" for row in rows):
        lines.append(table.MAP)
    if any(row["source"] == "estimated" for row in rows):
        lines.append("estimated from CPU time: no energy sensor was used; run `joulelab doctor`")
    if any(row["simulated"] for row in rows):
        lines.append("simulated: these figures come from a fake or replayed device, not from this machine")
    if any(row["short"] for row in rows):
        lines.append(
            "short: here or in the reference the meter's bound is a large share of the energy: let a repeat "
            "last longer before you rely on such joules"
        )
    if any(row["missed_target"] for row in rows):
        lines.append("missed: not every repeat reached the target, so there are no joules or seconds to it")
    if any(row["reference"] is None for row in rows):
        lines.append("no reference: no trial that is done and valid is like it in all else, host included")
    if any(row["small"] for row in rows):
        lines.append("small variant: how large a change is here says nothing of the full study")
    if left_out:
        lines.append(f"left out: {left_out} trial{'s' * (left_out != 1)} not done, or invalid")
    return lines


def _columns(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Figures that are known, and their heads. With a target, joules in all are joules to it."""
    total = "to_target_j" if any(row["missed_target"] is not None for row in rows) else "energy_j"
    heads = {
        "j_per_sample": "J per sample",
        total: "energy to\nthe target" if total == "to_target_j" else "energy",
        "time_s": "time",
        "accuracy": "accuracy",
    }
    return [(name, head) for name, head in heads.items() if any(row[name] is not None for row in rows)]


def _table(rows: Sequence[Row], *, without: Collection[str] = ()) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    varied = [name for name in rows[0] if name not in TYPES] or ["trial"]
    for name in varied:
        number = all(isinstance(row[name], int | float) for row in rows if row[name] is not None)
        table.add_column(name.replace("_", "\n"), justify="right" if number else "left", overflow="fold")
    shown = [column for column in _columns(rows) if column[0] not in without]
    for _, head in shown:
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("source", no_wrap=True)
    for row in rows:
        cells = [_cell(row, figure) for figure, _ in shown]
        table.add_row(*(setting(row[name]) for name in varied), *cells, _source(row))
    return table


def _cell(row: Row, figure: str) -> str:
    if row["missed_target"] and figure in ("to_target_j", "time_s"):
        return "missed"
    if row["is_reference"] or row["reference"] is None:
        return _figure(row[figure], figure)
    found, half = row[f"{figure}_change"], row[f"{figure}_change_ci"]
    if found is None:
        return UNKNOWN
    whole = max(abs(found), half or 0.0) >= 1.0
    by, digits, unit = (1.0, 3, "") if figure == "accuracy" else (100.0, 0 if whole else 1, " %")
    if half is None:
        return f"{by * found:+.{digits}f}{unit}\n{NO_INTERVAL}"
    words = "" if row[f"{figure}_seen"] else f"\n{UNSEEN}"
    return f"{by * found:+.{digits}f} ±{by * half:.{digits}f}{unit}{words}"


def _figure(value: float | None, figure: str) -> str:
    if figure == "accuracy":
        return UNKNOWN if value is None else f"{value:.3f}"
    return duration(value) if figure == "time_s" else quantity(value, "J")


def _source(row: Row) -> str:
    words = [row["source"] or UNKNOWN, *(word for word in ("simulated", "short") if row[word])]
    mark = "reference" if row["is_reference"] else "no reference" if row["reference"] is None else ""
    return ",\n".join(words) + (f"\n{mark}" if mark else "")
