# SPDX-License-Identifier: Apache-2.0
"""All loaders give one array."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import polars as pl  # noqa: F401  it sets a variable when it is loaded: before any test
import pytest

from joulelab.data import LABELLED_LOADERS, LIBRARIES, LOADERS, generate_nt3
from joulelab.errors import InputError
from joulelab.records import plugin

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", LOADERS)
def test_every_loader_gives_the_same_numbers(weird_tmp_path: Path, name: str) -> None:
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name], reason="the extra 'loaders' is not installed")
    path = weird_tmp_path / "table.csv"
    path.write_bytes(
        b"".join(
            line for line, _ in zip(generate_nt3.lines("nt_test2.csv", scale=0.002), range(20), strict=False)
        )
    )
    got = plugin.load(LOADERS, name, what="loader")(path, threads=1)
    want = [[float(cell) for cell in line.split(",")] for line in path.read_text().splitlines()]
    assert got.dtype == np.float32
    assert got.flags.c_contiguous
    # A library's own conversion may be off by one in the last place of float64, and so of float32.
    ulp = 0 if name in ("ours", "ours_cached", "loadtxt") else 1
    np.testing.assert_array_max_ulp(got, np.array(want).astype(np.float32), maxulp=ulp)


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("content", [None, b"1,x\n"], ids=["missing", "text"])
def test_every_loader_says_what_is_wrong(tmp_path: Path, name: str, content: bytes | None) -> None:
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name], reason="the extra 'loaders' is not installed")
    path = tmp_path / "table.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"table\.csv"):
        plugin.load(LOADERS, name, what="loader")(path)


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("table", [LOADERS, LABELLED_LOADERS], ids=["plain", "labelled"])
def test_without_the_library_the_cure_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, table: dict[str, str]
) -> None:
    (tmp_path / "table.csv").write_text("x\n1\n")
    monkeypatch.setitem(sys.modules, LIBRARIES[name], None)
    with pytest.raises(InputError, match=rf"'{name}' needs(.|\n)*pip install 'joulelab\[loaders\]'"):
        plugin.load(table, name, what="loader")(tmp_path / "table.csv")
