# SPDX-License-Identifier: Apache-2.0
"""A table for the width there is: whole columns give way, in an order, and no figure is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from rich.console import Console
    from rich.table import Table

FOLDED = 16  # columns that a setting is left with before others give way to it; longer ones are folded


def fitted(
    console: Console, make: Callable[[Collection[str]], Table], *, giving: Sequence[str]
) -> tuple[Table, list[str]]:
    """What `make` makes without the first few of `giving`, as few as will do, and the names of those."""
    without: list[str] = []
    table = make(without)
    for name in giving:
        if _least(console, table) <= console.width:
            break
        slimmer = make([*without, name])
        if len(slimmer.columns) < len(table.columns):
            without, table = [*without, name], slimmer
    return table, without


def said(names: Sequence[str]) -> list[str]:
    """The note that goes with it; none where everything is there."""
    if not names:
        return []
    return [f"no room for: {', '.join(names)}; a wider terminal shows them, --csv and --json have them"]


def _least(console: Console, table: Table) -> int:
    """The width that the table needs, settings folded."""
    folding = [column for column in table.columns if column.overflow == "fold"]
    for column in folding:
        column.max_width = FOLDED
    least = console.measure(table, options=console.options.update(max_width=10_000)).maximum
    for column in folding:
        column.max_width = None
    return least
