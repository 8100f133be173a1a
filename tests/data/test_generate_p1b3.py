# SPDX-License-Identifier: Apache-2.0
"""The stand-in of P1B3 has the layout, the gaps and the shares of the real files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from joulelab.data import generate_p1b3, labelled_csv

if TYPE_CHECKING:
    from pathlib import Path

SCALE = 0.01


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = generate_p1b3.generate(tmp_path_factory.mktemp("p1b3"), scale=SCALE)
    return {path.name: path for path in made}


def test_the_response_file_would_have_the_published_size(files: dict[str, Path]) -> None:
    mib = files[generate_p1b3.RESPONSE].stat().st_size / SCALE / 2**20
    assert 314 < mib < 321  # 318 in the paper


def test_growth_falls_into_the_published_shares(files: dict[str, Path]) -> None:
    table = labelled_csv.read(files[generate_p1b3.RESPONSE], text=("NSC", "CELLNAME"))
    growth, dose = table.column("GROWTH"), table.column("LOG_CONCENTRATION")
    assert {-4.0, -5.0, -6.0, -7.0} == set(np.unique(dose).tolist())
    used = growth[(dose >= -5) & (dose <= -4)]
    shares = [(used <= 0).mean(), ((used > 0) & (used < 50)).mean(), ((used >= 50) & (used <= 100)).mean()]
    assert shares == pytest.approx([0.149, 0.122, 0.37], abs=0.03)
    assert used.min() >= -100
    assert used.max() <= 270
    assert len(table.texts["CELLNAME"].words) == 60


def test_the_tables_have_names_gaps_and_dead_columns(files: dict[str, Path]) -> None:
    drugs = labelled_csv.read(files[generate_p1b3.DRUG_TABLE], text=("NAME",), separator="\t")
    gaps = np.isnan(drugs.values)
    assert gaps.all(0).sum() == 3
    assert drugs.values.shape[1] == 3 + round(SCALE * 3_809)
    assert 0.01 < gaps[:, ~gaps.all(0)].mean() < 0.03
    cells = labelled_csv.read(files[generate_p1b3.EXPRESSION], text=("CellLine",), separator="\t")
    assert cells.values.shape == (59, 3 + round(SCALE * 25_722))
    assert all("." in name and ":" not in name for name in cells.texts["CellLine"].words)
    raw = files[generate_p1b3.DRUG_TABLE].read_text()
    assert "\tna\t" in raw
    assert "\t-\t" in raw
    assert "\t\t" in raw


def test_the_lists_name_drugs_and_cells_that_exist(files: dict[str, Path]) -> None:
    response = labelled_csv.read(files[generate_p1b3.RESPONSE], text=("NSC", "CELLNAME"))
    for name, column in ((generate_p1b3.TEST_CELLS, "CELLNAME"), (generate_p1b3.TEST_DRUGS, "NSC")):
        listed = labelled_csv.read(files[name], text=(column,)).texts[column].words
        assert listed
        assert set(listed) < set(response.texts[column].words)


def test_the_same_seed_gives_the_same_bytes_and_another_others(tmp_path: Path) -> None:
    made = [
        generate_p1b3.generate(tmp_path / str(k), scale=0.001, seed=seed) for k, seed in enumerate((0, 0, 1))
    ]
    first, again, other = ([path.read_bytes() for path in paths] for paths in made)
    assert first == again
    assert all(a != b for a, b in zip(first[:3], other[:3], strict=True))
