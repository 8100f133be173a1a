# SPDX-License-Identifier: Apache-2.0
"""What a loader saves is a share of the original's total, and only like is compared with like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from joulelab.analysis.loading import loading
from joulelab.errors import InputError
from tests.analysis.records import repeat, write

if TYPE_CHECKING:
    from pathlib import Path


def test_saved_against_the_original(tmp_path: Path) -> None:
    records = [
        write(
            tmp_path / "a",
            {"loader": "pandas", "epochs": 1},
            repeat(1, 100.0, time_s=9.0),
            repeat(2, 100.0, time_s=11.0),
        ),
        write(
            tmp_path / "b",
            {"loader": "ours", "epochs": 1},
            repeat(1, 40.0, time_s=4.0),
            repeat(2, 40.0, time_s=4.0),
        ),
    ]
    original, ours, published = loading(records).to_dicts()
    assert (original["loader"], original["time_saved"], original["energy_saved"]) == ("pandas", None, None)
    assert (original["load_time_s"], original["load_energy_j"]) == pytest.approx((2.0, 20.0))
    assert (original["train_time_s"], original["evaluate_energy_j"]) == pytest.approx((5.0, 20.0))
    assert (ours["time_saved"], ours["energy_saved"]) == pytest.approx((0.6, 0.6))
    # The original's mean of 10 s lies within 12.7 s: t of one degree of freedom, sd 1.414, n 2.
    assert ours["time_saved_ci"] == pytest.approx(0.4 * 12.7062 * 2**0.5 / 2**0.5 / 10.0, rel=1e-4)
    assert ours["energy_saved_ci"] == 0.0
    assert (published["loader"], published["source"]) == ("published", "reported")
    assert (published["time_saved"], published["energy_saved"], published["n"]) == (0.6768, 0.5593, None)
    assert published["energy_j"] is None


def test_other_settings_are_another_comparison(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "a", {"loader": "pandas", "epochs": 1}, repeat(1, 100.0)),
        write(tmp_path / "b", {"loader": "ours", "epochs": 2}, repeat(1, 40.0)),
    ]
    table = loading(records)
    assert table["loader"].to_list() == ["pandas", "published", "ours", "published"]
    assert table["time_saved"].to_list()[2] is None


def test_energies_of_different_sources_are_not_compared(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "a", {"loader": "pandas"}, repeat(1, 100.0)),
        write(tmp_path / "b", {"loader": "ours"}, repeat(1, 40.0, time_s=5.0, source="estimated")),
    ]
    ours = loading(records).to_dicts()[1]
    assert ours["time_saved"] == pytest.approx(0.5)
    assert (ours["time_saved_ci"], ours["energy_saved"]) == (None, None)


def test_an_unknown_energy_saves_nothing_known(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "a", {"loader": "pandas"}, repeat(1, None)),
        write(tmp_path / "b", {"loader": "ours"}, repeat(1, None)),
    ]
    ours = loading(records).to_dicts()[1]
    assert ours["time_saved"] == 0.0
    assert ours["energy_saved"] is None


def test_invalid_trials_enter_no_comparison(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "a", {"loader": "pandas"}, repeat(1, 5.0, valid=False), valid=False),
        write(tmp_path / "b", {"loader": "ours"}, repeat(1, 40.0)),
    ]
    assert loading(records)["time_saved"].to_list()[1] is None


def test_records_without_a_loader(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no finished trial here has a loader"):
        loading([write(tmp_path / "a", {}, repeat(1, 1.0))])


def test_loaders_stand_in_the_order_of_the_story(tmp_path: Path) -> None:
    names = ["ours_cached", "polars", "pandas_chunked", "ours", "loadtxt", "pandas"]
    records = [write(tmp_path / name, {"loader": name}, repeat(1, 10.0)) for name in names]
    assert loading(records)["loader"].to_list() == [
        *("pandas", "pandas_chunked", "loadtxt", "polars", "ours", "ours_cached", "published")
    ]
