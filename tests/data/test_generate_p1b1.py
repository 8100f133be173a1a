# SPDX-License-Identifier: Apache-2.0
"""The stand-in of P1B1 has the size, the format and the signal of the real files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from joulelab.data import generate_p1b1, labelled_csv

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return generate_p1b1.generate(tmp_path_factory.mktemp("p1b1"), scale=0.02)


def test_rows_columns_and_cells(files: list[Path]) -> None:
    for path, rows in zip(files, (3_000, 1_000), strict=True):
        header, *lines = path.read_text(encoding="ascii").splitlines()
        assert len(lines) == rows
        names = header.split(",")
        assert names[:2] == ["case_id", "cancer_type"]
        assert len(names) == len(set(names)) == 2 + 1_210
        case, kind, *cells = lines[0].split(",")
        assert len(case) == 36
        assert 2 <= len(kind) <= 4
        for cell in cells:
            assert cell == f"{float(cell):.2f}".removesuffix("0")


def test_at_full_scale_the_files_have_the_published_size(files: list[Path]) -> None:
    for path, published_mib in zip(files, (771, 258), strict=True):
        header, *lines = path.read_bytes().splitlines(keepends=True)
        genes = header.count(b",") - 1
        labels = sum(len(b",".join(line.split(b",", 2)[:2])) + 1 for line in lines)
        cells = sum(map(len, lines)) - labels
        mib = (len(header) - 20 + cells) / genes * generate_p1b1.GENES / 2**20 + (20 + labels) / 2**20
        assert published_mib - 1.2 < mib <= published_mib + 0.2  # as a listing rounds it, up


def test_the_mean_of_each_gene_leaves_half_the_variance(files: list[Path]) -> None:
    rows = np.concatenate([labelled_csv.read(path, text=("case_id", "cancer_type")).values for path in files])
    zeros = float((rows == 0).mean())
    assert 0.46 < zeros < 0.53
    width = np.ptp(rows, axis=0)
    scaled = (rows - rows.min(0)) / np.where(width > 0, width, 1)
    assert 0.098 < scaled.var() < 0.110  # published runs imply .100 to .104
    left = np.square(scaled[2700:3000] - scaled[:2700].mean(0)).mean()
    assert 0.046 < left < 0.054


def test_the_same_seed_gives_the_same_bytes_and_another_others() -> None:
    def beginning(seed: int) -> bytes:
        lines = generate_p1b1.lines("P1B1.dev.test.csv", scale=0.002, seed=seed)
        return b"".join(next(lines) for _ in range(5))

    assert beginning(0) == beginning(0)
    assert beginning(0) != beginning(1)


def test_the_header_at_full_scale() -> None:
    header = next(generate_p1b1.lines("P1B1.dev.test.csv", scale=1.0)).decode("ascii").strip().split(",")
    assert len(header) == 2 + 60_483
    assert {len(name) for name in header[2:]} == {18}


def test_a_file_that_is_there_is_kept_and_progress_ends_at_the_end(tmp_path: Path) -> None:
    kept = tmp_path / "P1B1.dev.train.csv"
    kept.write_text("mine")
    seen: list[tuple[int, int]] = []
    generate_p1b1.generate(tmp_path, scale=0.001, progress=lambda done, of: seen.append((done, of)))
    assert kept.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["P1B1.dev.test.csv", "P1B1.dev.train.csv"]
    assert seen[-1] == (4_002, 4_002)
    assert seen == sorted(seen)
