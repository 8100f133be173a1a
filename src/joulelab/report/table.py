# SPDX-License-Identifier: Apache-2.0
"""The trials of a record as a table for the terminal, as CSV, and as JSON."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from joulelab.analysis.order import in_order
from joulelab.analysis.trials import PHASES, TYPES, trials
from joulelab.errors import RecordError
from joulelab.report import caps, fit
from joulelab.report.machine import machines, model_error
from joulelab.report.numbers import UNKNOWN, duration, quantity, relative, setting, settings, share
from joulelab.report.sheet import Sheet

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

    from joulelab.records.store import TrialRecord

Row = Mapping[str, Any]
MOST_NOTES = 8
WAIT_HEAD, WAIT = "wait\n%", "wait: share of the training phase in which the loop waited for its next batch"
MAP = "accuracy: of a detector its mAP at IoU 0.5 (`map50`)"
PERCENT = re.compile(r"\b(\d+)%")
WIDE = 100  # columns
SMALL = "SMALL VARIANT: it shows the form of the study's result; its figures are not those of the full study"


def text(
    records: Sequence[TrialRecord],
    *,
    sort: str = "",
    title: str = "",
    apart: Collection[str] = (),
    lists: Mapping[str, Sequence[object]] | None = None,
    width: int = 0,
) -> str:
    """A table that fits 100 columns: what was measured and where above it, what must be known of it below.

    Trials named in `apart` (those that a study's plan no longer holds) stand in a table of their own.
    """
    inside = [record for record in records if record.folder.path.name not in apart]
    outside = [record for record in records if record.folder.path.name in apart]
    sheet = Sheet(width=width)
    console = sheet.console
    _print(console, inside, sort=sort, title=title, lists=lists)
    if outside:
        console.print()
        _print(console, outside, sort=sort, title="Not in the study's plan any more")
    return sheet.text()


def _print(
    console: Console,
    records: Sequence[TrialRecord],
    *,
    sort: str,
    title: str,
    lists: Mapping[str, Sequence[object]] | None = None,
) -> None:
    rows = in_order(trials(records), sort=sort, where="--sort", lists=lists).to_dicts()
    varied = [name for name in rows[0] if name not in TYPES] if rows else []
    if "workload" in varied:
        varied = []  # what is alike in nothing has no settings to compare: the trials' names tell more
    for line in _head(records, rows, title=title):
        console.print(line)
    console.print()
    wide = console.width >= WIDE
    shown, left_out = fit.fitted(
        console, lambda without: _table(rows, varied, wide=wide, without=without), giving=GIVING
    )
    console.print(shown)
    console.print()
    names = [" ".join(name.replace("/\n", "/").split()) for name in left_out]
    for note in [*notes(records, rows, varied=varied), *fit.said(names)]:
        if note != WAIT or WAIT_HEAD not in left_out:
            console.print(note)


def to_json(records: Sequence[TrialRecord], *, sort: str = "") -> str:
    """A list of objects, a trial each; unknown is null."""
    return json.dumps(_sorted(records, sort=sort), indent=1, ensure_ascii=False, default=str)


def to_csv(records: Sequence[TrialRecord], *, sort: str = "") -> str:
    """One line a trial; unknown is empty, flags are joined by '; '."""
    table = in_order(trials(records), sort=sort, where="--sort")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([_plain(value) for value in row] for row in table.iter_rows())
    return out.getvalue().rstrip("\n")


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return "; ".join(value) if isinstance(value, list) else value


def _sorted(records: Sequence[TrialRecord], *, sort: str) -> list[dict[str, Any]]:
    return in_order(trials(records), sort=sort, where="--sort").to_dicts()


def _table(rows: Sequence[Row], varied: Sequence[str], *, wide: bool, without: Collection[str] = ()) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, int(wide), 0, 0), show_edge=False)
    first = list(varied) or ["trial"]
    for name in first:
        # Where it gets narrow these give way: a name may be folded, a figure may not.
        justify: JustifyMethod = "right" if _numeric(rows, name) else "left"
        table.add_column(name.replace("_", "\n"), justify=justify, overflow="fold")
    told = [column for column in COLUMNS if column[0] not in SELDOM or SELDOM[column[0]](rows)]
    shown = [column for column in told if column[0] not in without]
    for head, _ in shown:
        table.add_column(head, justify="left" if head in LEFT else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(setting(row[name]) for name in first), *(cell(row) for _, cell in shown))
    return table


def _energy(row: Row) -> str:
    return quantity(row["energy_j"], "J", error=row["energy_error_j"]).replace(" ± ", " ±")


def _source(row: Row) -> str:
    return (row["source"] or UNKNOWN) + (",\nsimulated" if row["simulated"] else "")


def _shares(row: Row) -> str:
    shares = [share(row[f"{phase}_share"]) for phase in PHASES]
    return UNKNOWN if set(shares) == {UNKNOWN} else "/".join(shares)


def _accuracy(row: Row) -> str:
    return UNKNOWN if row["accuracy"] is None else f"{row['accuracy']:.3f}"


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.1f}"


def _to_target(row: Row) -> str:
    """Joules to the target and in how many epochs; a target that was missed has none."""
    if row["missed_target"]:
        return "missed"
    if row["to_target_j"] is None:
        return UNKNOWN
    return f"{quantity(row['to_target_j'], 'J')} {row['to_target_epochs']:.3g} ep"


def _state(row: Row) -> str:
    return "invalid" if row["state"] == "done" and not row["valid"] else row["state"]


def _known(rows: Sequence[Row], name: str) -> bool:
    return any(row[name] is not None for row in rows)


def _ns(rows: Sequence[Row]) -> list[int]:
    return sorted({row["n"] for row in rows if row["n"]})


COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("energy", _energy),
    ("spread", lambda row: relative(row["energy_ci_j"], row["energy_j"])),
    ("source", _source),
    ("time", lambda row: duration(row["time_s"])),
    ("accu-\nracy", _accuracy),
    ("J per\nsample", lambda row: quantity(row["j_per_sample"], "J")),
    ("load/\ntrain/\neval %", _shares),
    (WAIT_HEAD, lambda row: _percent(row["waiting_share"])),
    ("to\ntarget", _to_target),
    ("n", lambda row: str(row["n"])),
    ("variant", lambda row: "small" if row["small"] else "full"),
    ("state", _state),
)
# What gives way first where the terminal is narrow.
GIVING = (WAIT_HEAD, "load/\ntrain/\neval %", "J per\nsample", "spread")
LEFT = ("source", "variant", "state")
# Columns that stand only where they tell something: the width is for the settings.
SELDOM: dict[str, Callable[[Sequence[Row]], bool]] = {
    "spread": lambda rows: _known(rows, "energy_ci_j"),
    "accu-\nracy": lambda rows: _known(rows, "accuracy"),
    "J per\nsample": lambda rows: _known(rows, "j_per_sample"),
    WAIT_HEAD: lambda rows: _known(rows, "waiting_share"),
    "to\ntarget": lambda rows: _known(rows, "missed_target"),
    "load/\ntrain/\neval %": lambda rows: any(_shares(row) != UNKNOWN for row in rows),
    "n": lambda rows: len(_ns(rows)) > 1,
    "variant": lambda rows: any(row["small"] for row in rows) and not _all_small(rows),
    "state": lambda rows: any(_state(row) != "done" for row in rows),
}


def _numeric(rows: Sequence[Row], name: str) -> bool:
    return all(isinstance(row[name], int | float) for row in rows if row[name] is not None)


def _head(records: Sequence[TrialRecord], rows: Sequence[Row], *, title: str) -> list[str]:
    what = f"{', '.join(_workloads(records)) or 'unknown'}: {len(rows)} trial{'s' if len(rows) != 1 else ''}"
    places = machines(records)
    where = [f"on {place}" for place in places] if len(places) < 4 else [f"on {len(places)} machines"]
    return [*([title] if title else []), what, *where, *([SMALL] if _all_small(rows) else [])]


def _all_small(rows: Sequence[Row]) -> bool:
    return bool(rows) and all(row["small"] for row in rows)


def _workloads(records: Sequence[TrialRecord]) -> list[str]:
    names: dict[str, None] = {}
    for record in records:
        try:
            spec = record.spec
        except RecordError:
            continue
        names[setting(shlex.join(spec.command)) if spec.command else spec.workload] = None
    return list(names) if len(names) < 4 else [f"{len(names)} workloads"]


def _merged(flags: Iterable[Sequence[str]]) -> Counter[str]:
    """In how many trials each flag stands; what differs in a percentage alone is one, with its range."""
    trials_of: dict[str, set[int]] = {}
    percents: dict[str, list[int]] = {}
    for trial, each in enumerate(flags):
        for flag in each:
            form = PERCENT.sub("{}", flag, count=1)
            trials_of.setdefault(form, set()).add(trial)
            percents.setdefault(form, []).extend(int(found) for found in PERCENT.findall(flag)[:1])
    return Counter(
        {
            form.replace("{}", _span(percents[form])) if percents[form] else form: len(found)
            for form, found in trials_of.items()
        }
    )


def _span(percents: Sequence[int]) -> str:
    low, high = min(percents), max(percents)
    return f"{low}%" if low == high else f"{low}% to {high}%"


def _restarted(rows: Sequence[Row], *, varied: Sequence[str]) -> list[str]:
    """What stopped trials cost beyond their figures: work that was done twice."""
    lines = []
    stopped = [row for row in rows if row["restarts"]]
    for row in stopped[:MOST_NOTES]:
        which = settings({name: row[name] for name in varied}) or row["trial"]
        times = "once" if row["restarts"] == 1 else f"{row['restarts']} times"
        lost = (
            "not known" if row["lost_j"] is None else quantity(row["lost_j"], "J", error=row["lost_error_j"])
        )
        lines.append(f"restarted {times}: {which}: lost beside its energy: {lost}, {duration(row['lost_s'])}")
    if len(stopped) > MOST_NOTES:
        lines.append(f"and {len(stopped) - MOST_NOTES} more that were restarted")
    return lines


def notes(records: Sequence[TrialRecord], rows: Sequence[Row], *, varied: Sequence[str] = ()) -> list[str]:
    """What a reader of the table must know, in words."""
    lines = []
    ns = _ns(rows)
    many = "n repeats" if len(ns) != 1 else f"{ns[0]} repeat{'s' if ns[0] > 1 else ''}"
    if any(row["energy_j"] is not None for row in rows):
        lines.append(
            f"energy: mean of {many} ± bound of the meter's error"
            + ("; spread: 95 % interval of that mean" if _known(rows, "energy_ci_j") else "")
        )
    if any(row["source"] == "estimated" for row in rows):
        error = model_error(records)
        lines.append(
            f"estimated from CPU time: model error {relative(error, 1.0) if error else 'not stated'}, "
            "no energy sensor was used; run `joulelab doctor`"
        )
    if len({row["source"] for row in rows if row["source"]}) > 1:
        lines.append("energies of different sources stand in this table: compare only those of one source")
    if any(row["accuracy_figure"] == "map50" for row in rows):
        lines.append(MAP)
    if any(row["waiting_share"] is not None for row in rows):
        lines.append(WAIT)
    for row in rows:
        if row["missed_target"]:
            which = settings({name: row[name] for name in varied}) or row["trial"]
            lines.append(
                f"target not reached in {row['missed_target']} of {row['n']} repeats, so there is no energy "
                f"to it: {which}"
            )
    lines += _restarted(rows, varied=varied)
    if any(row["small"] for row in rows) and not _all_small(rows):
        lines.append("small: of the small variant of a study; not to be compared with figures of a full one")
    if any(row["simulated"] for row in rows):
        lines.append("simulated: these figures come from a fake or replayed device, not from this machine")
    lines += caps.notes(records)[:MOST_NOTES]
    flags = _merged([flag for flag in row["flags"] if not flag.startswith("simulated")] for row in rows)
    lines += [
        f"note ({count} of {len(rows)} trials): {flag}" for flag, count in flags.most_common(MOST_NOTES)
    ]
    wrong = [row for row in rows if row["reason"]]
    for row in wrong[:MOST_NOTES]:
        which = settings({name: row[name] for name in varied}) or row["trial"]
        lines.append(f"{_state(row)}: {which}: {row['reason']}")
    if len(wrong) > MOST_NOTES:
        lines.append(f"and {len(wrong) - MOST_NOTES} more; `joulelab show --json` lists all")
    return lines
