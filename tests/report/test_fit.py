# SPDX-License-Identifier: Apache-2.0
"""Where it is narrow whole columns give way in their order, and no figure is cut."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from rich.table import Table

from joulelab.report.fit import fitted, said

if TYPE_CHECKING:
    from collections.abc import Collection

FIGURES = {"one": "1 of 11111", "two": "2 of 22222", "three": "3 of 33333"}


def make(without: Collection[str]) -> Table:
    table = Table()
    table.add_column("setting", overflow="fold")
    shown = {name: figure for name, figure in FIGURES.items() if name not in without}
    for name in shown:
        table.add_column(name, no_wrap=True)
    table.add_row("a" * 30, *shown.values())
    return table


@pytest.mark.parametrize(
    ("width", "gone"),
    [(120, []), (60, []), (52, ["two"]), (40, ["two", "one"]), (10, ["two", "one"])],
)
def test_as_few_as_will_do(width: int, gone: list[str]) -> None:
    out = io.StringIO()
    console = Console(file=out, width=width)
    table, without = fitted(console, make, giving=("two", "nobody", "one"))
    assert without == gone
    console.print(table)
    shown = out.getvalue()
    assert all((figure in shown) == (name not in gone) for name, figure in FIGURES.items()) or width == 10
    if width > 10:
        assert sum(line.count("a") for line in shown.splitlines()) == 30, "a setting is folded, not cut"


def test_it_is_said() -> None:
    assert said([]) == []
    assert "no room for: wait %, spread" in said(["wait %", "spread"])[0]
