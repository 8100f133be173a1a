# SPDX-License-Identifier: Apache-2.0
"""Rows in the order asked for; unknown is last whichever way it is sorted."""

from __future__ import annotations

import polars as pl
import pytest

from joulelab.analysis.order import in_order, settings_of_table
from joulelab.errors import InputError

TABLE = pl.DataFrame(
    {"batch_size": [100, 20, 20], "loader": ["ours", "pandas", "ours"], "energy_j": [None, 2.0, 1.0]}
)


def test_by_the_settings() -> None:
    assert settings_of_table(TABLE) == ["batch_size", "loader"]
    assert in_order(TABLE).rows() == [(20, "ours", 1.0), (20, "pandas", 2.0), (100, "ours", None)]


@pytest.mark.parametrize(
    ("sort", "energies"), [("energy_j", [1.0, 2.0, None]), ("-energy_j", [2.0, 1.0, None])]
)
def test_by_a_column(sort: str, energies: list[float | None]) -> None:
    assert in_order(TABLE, sort=sort)["energy_j"].to_list() == energies


def test_an_unknown_column() -> None:
    with pytest.raises(InputError, match=r"--sort: unknown column 'energy'(.|\n)*did you mean 'energy_j'"):
        in_order(TABLE, sort="-energy", where="--sort")


def test_texts_that_begin_with_a_number_and_those_of_a_study() -> None:
    caps = pl.DataFrame({"power_limit": ["100%", "as-is", None, "40%", "80.5%"]})
    assert in_order(caps)["power_limit"].to_list() == ["40%", "80.5%", "100%", "as-is", None]
    sizes = pl.DataFrame({"size": ["l", "n", "extra", "s", None]})
    lists = {"size": ("n", "s", "l")}
    assert in_order(sizes, lists=lists)["size"].to_list() == ["n", "s", "l", "extra", None]
    assert in_order(sizes, lists=lists, sort="size")["size"].to_list() == ["extra", "l", "n", "s", None]


def test_nothing_to_sort_by() -> None:
    assert in_order(TABLE.select("energy_j")).height == 3
