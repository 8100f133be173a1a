# SPDX-License-Identifier: Apache-2.0
"""Every way to read a labelled file gives the same names, words and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl  # noqa: F401  it sets a variable when it is loaded: before any test
import pytest

from joulelab.data import LABELLED_LOADERS, LIBRARIES, LOADERS, labelled_csv
from joulelab.data.labelled_loaders import loadtxt
from joulelab.errors import InputError
from joulelab.records import plugin

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", sorted(LABELLED_LOADERS))
def test_they_agree(tmp_path: Path, name: str) -> None:
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name], reason="the extra 'loaders' is not installed")
    path = tmp_path / "a.csv"
    rng = np.random.default_rng(0)
    lines = [f"id{k},{'XYZ'[k % 3]}," + ",".join(f"{v:.2f}" for v in rng.random(90)) for k in range(50)]
    path.write_text("\n".join(["id,kind," + ",".join(f"g{k}" for k in range(90)), *lines]) + "\n")
    load: Any = plugin.load(LABELLED_LOADERS, name, what="loader")
    ours, theirs = labelled_csv.read(path, text=("id", "kind")), load(path, text=("id", "kind"), threads=1)
    assert ours.names == theirs.names
    np.testing.assert_array_max_ulp(ours.values, theirs.values, maxulp=0 if name.startswith("ours") else 1)
    assert theirs.values.dtype == np.float32
    assert theirs.values.flags.c_contiguous
    for column in ("id", "kind"):
        assert ours.texts[column].words == theirs.texts[column].words
        assert np.array_equal(ours.texts[column].codes, theirs.texts[column].codes)


@pytest.mark.parametrize("name", sorted(LABELLED_LOADERS))
def test_chosen_columns_with_gaps(tmp_path: Path, name: str) -> None:
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name], reason="the extra 'loaders' is not installed")
    path = tmp_path / "a.tsv"
    path.write_text("x\tname\ty\tz\n1\tA 1\t2\t9\n\tB\tna\t9\n-\tA 1\t4e1\t9\n")
    load: Any = plugin.load(LABELLED_LOADERS, name, what="loader")
    if name == "loadtxt":
        with pytest.raises(InputError, match="whose text stands in front"):
            load(path, text=("name",), numbers=("y", "x"), separator="\t")
        return
    got = load(path, text=("name",), numbers=("y", "x"), separator="\t", threads=1)
    assert got.names == ("y", "x")
    nan = float("nan")
    assert np.array_equal(got.values, np.array([[2, 1], [nan, nan], [40, nan]]), equal_nan=True)
    assert [got.texts["name"].at(k) for k in range(3)] == ["A 1", "B", "A 1"]


@pytest.mark.parametrize("name", sorted(LABELLED_LOADERS))
@pytest.mark.parametrize("content", [None, "name,x\na,word\n"], ids=["missing", "text"])
def test_what_is_wrong_is_said_with_the_path(tmp_path: Path, name: str, content: str | None) -> None:
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name], reason="the extra 'loaders' is not installed")
    path = tmp_path / "a.csv"
    if content is not None:
        path.write_text(content)
    load: Any = plugin.load(LABELLED_LOADERS, name, what="loader")
    with pytest.raises(InputError, match=r"a\.csv"):
        load(path, text=("name",))


def test_the_knob_means_the_same_for_every_file() -> None:
    assert set(LABELLED_LOADERS) == set(LOADERS)


def test_loadtxt_says_what_it_cannot_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,name\n1,a\n")
    with pytest.raises(InputError, match="whose text stands in front"):
        loadtxt(path, text=("name",))
    path.write_text("name,x\na,na\n")
    with pytest.raises(InputError, match="cannot be read by numpy"):
        loadtxt(path, text=("name",))
