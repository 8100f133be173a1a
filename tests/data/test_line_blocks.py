# SPDX-License-Identifier: Apache-2.0
"""Blocks are whole lines, in order, and none is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joulelab.data import csv_kernel, line_blocks
from joulelab.data.file_bytes import opened
from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KERNEL: Any = csv_kernel


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.integers(0, 40).map(lambda n: b"x" * n), min_size=1, max_size=30),
    last=st.sampled_from([b"", b"\n"]),
    threads=st.integers(1, 7),
    first=st.integers(0, 3),
)
def test_the_blocks_are_the_file(
    tmp_path: Path, lines: list[bytes], last: bytes, threads: int, first: int
) -> None:
    path = tmp_path / "lines"
    text = b"\n".join([b"y" * 4, *lines]) + last
    path.write_bytes(text)
    with opened(path) as source:
        runs = line_blocks.cut(source, first, threads=threads, kernel=KERNEL)
        assert len(runs) <= threads
        row, at = 0, first
        for run in runs:
            for block, buffer in line_blocks.texts(source, run):
                assert (block.start, block.row) == (at, row)
                here = bytes(buffer[: block.stop - block.start])
                assert here == text[block.start : block.stop]
                assert len(here.splitlines()) == block.lines
                assert here.endswith(b"\n") or block.stop == len(text)
                row, at = row + block.lines, block.stop
        assert at == len(text)


def test_the_first_error_is_the_one_raised() -> None:
    def work(run: Sequence[int]) -> int:
        if run[0] > 1:
            raise ValueError(run)
        return run[0]

    assert line_blocks.each([[0], [1]], work) == [0, 1]
    with pytest.raises(ValueError, match=r"\[2\]"):
        line_blocks.each([[1], [2], [3]], work)
    nothing: list[Sequence[int]] = []
    assert line_blocks.each(nothing, work) == []


def test_no_threads_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n")
    with opened(tmp_path / "a") as source, pytest.raises(InputError, match="0 threads"):
        line_blocks.cut(source, 0, threads=0, kernel=KERNEL)
