# SPDX-License-Identifier: Apache-2.0
"""The rows of a table of trials, in the order that a reader asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from joulelab.analysis.trials import TYPES
from joulelab.errors import unknown

if TYPE_CHECKING:
    import polars as pl


def settings_of_table(table: pl.DataFrame) -> list[str]:
    """The columns that say how trials differ."""
    return [name for name in table.columns if name not in TYPES]


def in_order(table: pl.DataFrame, *, sort: str = "", where: str = "") -> pl.DataFrame:
    """Sorted by a column (`-column`: largest first), or by the settings; unknown is last either way."""
    name = sort.removeprefix("-")
    if name and name not in table.columns:
        raise unknown("column", name, table.columns, where=where)
    by = [name] if name else settings_of_table(table)
    if not by:
        return table
    return table.sort(by, descending=sort.startswith("-"), nulls_last=True, maintain_order=True)
