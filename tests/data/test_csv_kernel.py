# SPDX-License-Identifier: Apache-2.0
"""The compiled parser alone: what it settles by itself, and what it leaves to Python."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from joulelab.data import csv_kernel

if TYPE_CHECKING:
    from pathlib import Path


def parse(
    text: bytes, *, rows: int, columns: int, room: int = 8
) -> tuple[tuple[int, ...], np.ndarray, np.ndarray]:
    data = np.frombuffer(text, np.uint8)
    out = np.full((rows, columns), -1, np.float32)
    backlog = np.zeros((room, 5), np.int64)
    return csv_kernel.parse_rows(data, 0, len(data), out, 0, 0, 0, backlog), out, backlog


def test_settles_long_decimals_that_are_not_near_a_tie() -> None:
    text = b"0.1234567890123456789,1234567890123456789012345\n"
    state, out, _ = parse(text, rows=1, columns=2)
    assert state == (csv_kernel.FINISHED, len(text), 1, 0, 1, 0)
    assert out.tolist() == [[np.float32(0.1234567890123456789), np.float32(1234567890123456789012345)]]


@pytest.mark.parametrize(
    "cell", [b"", b"NA", b'"1"', b"inf", b"1.2.3", b"1e999", b"16777217.00000000000000001"]
)
def test_leaves_the_rest_and_says_where_it_is(cell: bytes) -> None:
    state, _, backlog = parse(b"1,2\n3," + cell + b"\n5,6", rows=3, columns=2)
    assert state[0] == csv_kernel.FINISHED
    assert state[5] == 1
    assert backlog[0].tolist() == [6, 6 + len(cell), 1, 1, 1]


def test_stops_when_the_backlog_is_full_and_goes_on_from_there() -> None:
    text = b"a,b\nc,4\n"
    data = np.frombuffer(text, np.uint8)
    out = np.zeros((2, 2), np.float32)
    backlog = np.zeros((2, 5), np.int64)
    ended, position, row, column, line, used = csv_kernel.parse_rows(
        data, 0, len(text), out, 0, 0, 0, backlog
    )
    assert (ended, position, row, column, line, used) == (csv_kernel.BACKLOG_FULL, 4, 1, 0, 1, 2)
    state = csv_kernel.parse_rows(data, position, len(text), out, row, column, line, backlog)
    assert state[0] == csv_kernel.FINISHED
    assert backlog[0].tolist() == [4, 5, 1, 0, 1]
    assert out[1, 1] == 4


def test_compiles_where_nothing_can_be_cached(tmp_path: Path) -> None:
    # A package that cannot be written to, and no home: as in a container.
    code = (
        "import numba.core.caching as c; c.CacheImpl._locator_classes = [];"
        "from joulelab.data import csv_kernel as k; import numpy as n;"
        "print(k.count_newlines(n.frombuffer(b'a\\nb\\n', n.uint8), 0, 4))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.stdout == "2\n", done.stderr
