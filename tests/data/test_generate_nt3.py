# SPDX-License-Identifier: Apache-2.0
"""The stand-in has the size and format of the real files, and is the same for the same seed."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from joulelab.data import generate_nt3
from joulelab.data.generate_nt3 import FILES, generate, lines, scaled_genes

if TYPE_CHECKING:
    from pathlib import Path


def test_a_cell_at_full_scale_is_as_long_as_in_the_real_file() -> None:
    rows = list(itertools.islice(lines("nt_train2.csv", scale=1.0), 8))
    cells = [row.count(b",") + 1 for row in rows]
    assert cells == [60_484] * 8
    # 597 MiB in 1,120 rows of 60,484 cells.
    assert 9.22 <= sum(map(len, rows)) / sum(cells) <= 9.25


def test_the_form_of_a_row() -> None:
    row = next(lines("nt_test2.csv", scale=0.01))
    assert row.endswith(b"\n")
    assert b"\r" not in row
    label, *values = row[:-1].split(b",")
    assert label in (b"0", b"1")
    assert len(values) == scaled_genes(0.01) == 605
    assert b"0.0" in values
    assert not {b"0", b"-0.0"} & set(values)
    assert all(len(v.replace(b".", b"").lstrip(b"0")) <= 12 for v in values)
    assert all(float(v) >= 0 for v in values)


def test_two_files_of_balanced_rows(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    paths = generate(tmp_path / "a", scale=0.002, progress=lambda done, of: seen.append((done, of)))
    assert [path.name for path in paths] == ["nt_train2.csv", "nt_test2.csv"]
    labels = [[line[0] for line in path.read_text().splitlines()] for path in paths]
    assert [len(column) for column in labels] == [1_120, 280]
    assert [column.count("1") for column in labels] == [560, 140]
    assert "0" * 560 not in "".join(labels[0]), "the rows are not in order of their label"
    assert seen == [(k, 1_400) for k in range(1, 1_401)]


def test_the_seed_decides_every_byte() -> None:
    def start(**settings: float) -> bytes:
        return b"".join(itertools.islice(lines("nt_train2.csv", **settings), 5))  # type: ignore[arg-type]

    assert start(scale=0.01, seed=3) == start(scale=0.01, seed=3)
    assert start(scale=0.01, seed=3) != start(scale=0.01, seed=4)
    test_rows = b"".join(itertools.islice(lines("nt_test2.csv", scale=0.01, seed=3), 5))
    assert start(scale=0.01, seed=3) != test_rows


def test_tumour_moves_a_fifth_of_the_genes() -> None:
    genes = generate_nt3._make_genes(10_000, seed=0)
    told = genes.effect[genes.effect != 0]
    assert len(told) == 2_000
    assert np.std(told) == pytest.approx(1.5, rel=0.1)


def test_two_at_once_leave_two_whole_files_and_nothing_else(tmp_path: Path) -> None:
    runs = [threading.Thread(target=generate, args=(tmp_path,), kwargs={"scale": 0.002}) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert {path.name for path in tmp_path.iterdir()} == set(FILES)
    for name in FILES:
        assert (tmp_path / name).read_bytes() == b"".join(lines(name, scale=0.002))


def test_a_broken_off_generation_leaves_no_half_file(tmp_path: Path) -> None:
    def stop(done: int, of: int) -> None:
        if done == 1_200:  # in the second file
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(tmp_path, scale=0.002, progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["nt_train2.csv"]
    before = (tmp_path / "nt_train2.csv").stat().st_mtime_ns
    generate(tmp_path, scale=0.002)
    assert (tmp_path / "nt_train2.csv").stat().st_mtime_ns == before, "what was whole is kept"
    assert (tmp_path / "nt_test2.csv").exists()
