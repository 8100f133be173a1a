# SPDX-License-Identifier: Apache-2.0
"""The rows of a table of trials, in the order that a reader asked for."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from joulelab.analysis.trials import TYPES
from joulelab.errors import unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

_NUMBER = re.compile(r"\s*([-+]?\d+(?:\.\d+)?)")


def settings_of_table(table: pl.DataFrame) -> list[str]:
    """The columns that say how trials differ."""
    return [name for name in table.columns if name not in TYPES]


def in_order(
    table: pl.DataFrame,
    *,
    sort: str = "",
    where: str = "",
    lists: Mapping[str, Sequence[object]] | None = None,
) -> pl.DataFrame:
    """Sorted by a column (`-column`: largest first), or by the settings; unknown is last either way.

    `lists` are those of a study: their values stand as its author wrote them.
    """
    name = sort.removeprefix("-")
    if name and name not in table.columns:
        raise unknown("column", name, table.columns, where=where)
    if not name:
        return by_settings(table, settings_of_table(table), lists=lists or {})
    return table.sort(name, descending=sort.startswith("-"), nulls_last=True, maintain_order=True)


def by_settings(
    table: pl.DataFrame, names: Sequence[str], *, lists: Mapping[str, Sequence[object]]
) -> pl.DataFrame:
    """Sorted by these columns; texts that begin with a number by it, so that 60% stands before 100%."""
    rows = table.select(names).rows() if names else []
    keys = [
        [place_of(value, lists.get(name, ())) for name, value in zip(names, row, strict=True)] for row in rows
    ]
    return table[sorted(range(len(rows)), key=keys.__getitem__)] if rows else table


def place_of(value: object, listed: Sequence[object] = ()) -> tuple[int, float, str]:
    """What a setting is sorted by."""
    if value is None:
        return 2, 0.0, ""
    text = str(value)
    # A column of two kinds holds texts.
    places = [place for place, each in enumerate(listed) if str(each) == text]
    if places:
        return 0, places[0], ""
    if isinstance(value, int | float):
        return 1, float(value), ""
    number = _NUMBER.match(text)
    return 1, float(number[1]) if number else math.inf, text
