# SPDX-License-Identifier: Apache-2.0
"""The join of P1B3, rule by rule; where pandas is there, what is drawn is what pandas draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from joulelab.data import generate_p1b3, labelled_csv, p1b3_join
from joulelab.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

ROLES = ("response", "expression", "descriptors", "test_cells", "test_drugs")


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = generate_p1b3.generate(tmp_path_factory.mktemp("p1b3"), scale=0.01)
    return dict(zip(ROLES, made, strict=True))


@pytest.fixture(scope="module")
def joined(paths: dict[str, Path]) -> p1b3_join.Joined:
    return p1b3_join.join(paths, labelled_csv.read)


def test_at_full_scale_the_rows_would_be_those_published(joined: p1b3_join.Joined) -> None:
    assert (joined.train + joined.val) / 0.01 == pytest.approx(1_000_151, rel=0.1)  # so few drugs vary
    assert joined.val == int((joined.train + joined.val) * 0.1)
    assert joined.test / 0.01 == pytest.approx(14_740, rel=0.35)  # of a handful of drugs at this scale


def test_growth_after_balancing(joined: p1b3_join.Joined) -> None:
    growth = 100 * joined.growth[: joined.train + joined.val]
    assert growth.mean() == pytest.approx(-1.3, abs=8)
    assert growth.std() == pytest.approx(62, abs=6)
    assert (growth < 0).mean() == pytest.approx(0.495, abs=0.06)


def test_no_drug_of_the_test_is_trained_on_and_every_cell_of_it_is(joined: p1b3_join.Joined) -> None:
    after = joined.train + joined.val
    assert len(joined.growth) == after + joined.test
    assert not set(joined.drug[:after].tolist()) & set(joined.drug[after:].tolist())
    assert set(joined.cell[after:].tolist()) < set(joined.cell[:after].tolist())
    cells = set(joined.cell[:after].tolist())
    assert len(cells) == 55  # 59 with an expression, less the four of the list
    assert len(set(joined.cell[after:].tolist())) == round(0.15 * 55)


def test_tables_are_standardised_and_complete(joined: p1b3_join.Joined) -> None:
    assert joined.cells.shape == (59, 257)
    assert joined.drugs.shape[1] == 38
    for table in (joined.cells, joined.drugs):
        np.testing.assert_allclose(table.mean(0, dtype=np.float64), 0, atol=1e-6)
        np.testing.assert_allclose(table.std(0, dtype=np.float64), 1, rtol=1e-5)


def test_a_gap_becomes_the_mean_and_a_constant_column_nought(tmp_path: Path) -> None:
    nan = np.nan
    table = np.array([[1, nan, 5, nan], [3, nan, 5, 2], [nan, nan, 5, 4]], np.float32)
    found = p1b3_join.standardised(tmp_path, table)
    root = np.sqrt(1.5)
    np.testing.assert_allclose(found, [[-root, 0, 0], [root, 0, -root], [0, 0, root]], rtol=1e-6)
    with pytest.raises(InputError, match="no number in any"):
        p1b3_join.standardised(tmp_path, np.full((2, 2), nan, np.float32))


def test_a_number_of_columns_is_drawn(paths: dict[str, Path]) -> None:
    few = p1b3_join.join(paths, labelled_csv.read, columns_drawn=20)
    assert 17 <= few.cells.shape[1] <= 20
    assert 17 <= few.drugs.shape[1] <= 20


def test_what_is_drawn_is_what_pandas_draws() -> None:
    pandas = pytest.importorskip("pandas", reason="the extra 'loaders' is not installed")
    rng = np.random.default_rng(0)
    growth = np.rint(rng.uniform(-100, 150, 4000)).astype(np.float32)
    growth[::97] = np.nan
    dose = rng.choice([-3.9, -4.0, -4.5, -5.0, -6.0], 4000).astype(np.float32)
    table = pandas.DataFrame({"g": growth, "d": dose})
    table = table[(table.d >= -5.0) & (table.d <= -4.0)]
    parts = [
        table[table.g <= 0],
        table[(table.g > 0) & (table.g < 50)].sample(frac=0.7, random_state=2017),
        table[(table.g >= 50) & (table.g <= 100)].sample(frac=0.18, random_state=2017),
        table[table.g > 100].sample(frac=0.01, random_state=2017),
    ]
    wanted = pandas.concat(parts).index.tolist()
    assert p1b3_join.balanced(growth, dose, seed=2017).tolist() == wanted


def test_files_that_do_not_belong_together_are_refused(paths: dict[str, Path], tmp_path: Path) -> None:
    stranger = tmp_path / "drugs.txt"
    stranger.write_text("NSC\nnobody\n")
    with pytest.raises(InputError, match="and 0 to test"):
        p1b3_join.join({**paths, "test_drugs": stranger}, labelled_csv.read)
    twice = tmp_path / "cells.tsv"
    line = "BR.CL-001\t1\n"
    twice.write_text("CellLine\tg\n" + line + line)
    with pytest.raises(InputError, match="a name twice"):
        p1b3_join.join({**paths, "expression": twice}, labelled_csv.read)
