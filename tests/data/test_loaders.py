# SPDX-License-Identifier: Apache-2.0
"""All loaders give one array."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from joulelab.data import LOADERS, generate_nt3, loaders
from joulelab.errors import InputError
from joulelab.records import plugin

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", LOADERS)
def test_every_loader_gives_the_same_numbers(weird_tmp_path: Path, name: str) -> None:
    if name == "pandas":
        pytest.importorskip("pandas")
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
    # pandas' own conversion may be off by one in the last place of float64, and so of float32.
    np.testing.assert_array_max_ulp(
        got, np.array(want).astype(np.float32), maxulp=1 if name == "pandas" else 0
    )


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("content", [None, b"1,x\n"], ids=["missing", "text"])
def test_every_loader_says_what_is_wrong(tmp_path: Path, name: str, content: bytes | None) -> None:
    if name == "pandas":
        pytest.importorskip("pandas")
    path = tmp_path / "table.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"table\.csv"):
        plugin.load(LOADERS, name, what="loader")(path)


def test_without_pandas_the_cure_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"pip install 'joulelab\[loaders\]'"):
        loaders.pandas_default(tmp_path / "table.csv")
