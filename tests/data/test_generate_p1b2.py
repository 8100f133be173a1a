# SPDX-License-Identifier: Apache-2.0
"""The stand-in of P1B2 has the size, the format and the order of the real files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from joulelab.data import generate_p1b2, labelled_csv

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return generate_p1b2.generate(tmp_path_factory.mktemp("p1b2"), scale=0.05)


def test_rows_are_sorted_by_kind_and_balanced(files: list[Path]) -> None:
    for path, each in zip(files, (300, 100), strict=True):
        column = labelled_csv.read(path, text=("case_id", "cancer_type")).texts["cancer_type"].sorted()
        assert column.words == tuple(sorted(generate_p1b2.KINDS))
        assert column.codes.tolist() == [kind for kind in range(10) for _ in range(each)]


def test_cells_are_small_integers_without_decimals(files: list[Path]) -> None:
    for path in files:
        rows = labelled_csv.read(path, text=("case_id", "cancer_type")).values
        assert set(np.unique(rows).tolist()) <= {0.0, 1.0, 2.0, 3.0}
        assert 0.001 < (rows > 0).mean() < 0.03
        assert b"." not in path.read_bytes()


def test_at_full_scale_the_files_have_the_published_size() -> None:
    for name, published_mib in (("P1B2.train.csv", 162), ("P1B2.test.csv", 55)):
        lines = generate_p1b2.lines(name, scale=1.0)
        header = next(lines)
        assert header.count(b",") == 1 + 28_204
        few = [len(next(lines)) for _ in range(20)]
        mib = (len(header) + sum(few) / len(few) * generate_p1b2.FILES[name]) / 2**20
        assert published_mib - 1.2 < mib <= published_mib


def test_the_same_seed_gives_the_same_bytes_and_another_others() -> None:
    def beginning(seed: int) -> bytes:
        lines = generate_p1b2.lines("P1B2.test.csv", scale=0.02, seed=seed)
        return b"".join(next(lines) for _ in range(5))

    assert beginning(0) == beginning(0)
    assert beginning(0) != beginning(1)


def test_a_mutation_weighs_more_in_the_driver_genes_of_its_kind(files: list[Path]) -> None:
    table = labelled_csv.read(files[0], text=("case_id", "cancer_type"))
    hit = (table.values > 0).reshape(10, 300, -1).mean(1)
    usual = np.median(hit, axis=0)
    # Every kind has genes that are hit ten per cent more often than in the others, and not many.
    for kind in range(10):
        assert 3 <= int((hit[kind] - usual > 0.1).sum()) <= 40


@pytest.mark.parametrize("seed", [0, 1])
def test_how_many_mutations_a_kind_has_is_the_same_for_every_seed(seed: int) -> None:
    lines = generate_p1b2.lines("P1B2.test.csv", scale=1.0, seed=seed)
    next(lines)
    rows = [next(lines).rstrip().split(b",", 2) for _ in range(100)]
    assert {kind for _, kind, _ in rows} == {b"BRCA"}
    hit = [len(cells) // 2 + 1 - cells.count(b"0") for *_, cells in rows]
    assert 48 < np.median(hit) < 78  # about 60, of a log-normal number with a deviation of 0.8
