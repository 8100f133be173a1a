# SPDX-License-Identifier: Apache-2.0
"""Energy and time by phase, and what lies in none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from joulelab.analysis.phases import phases
from tests.analysis.records import repeat, write

if TYPE_CHECKING:
    from pathlib import Path


def test_phases_and_the_rest_add_up_to_the_total(tmp_path: Path) -> None:
    record = write(
        tmp_path / "a",
        {},
        repeat(1, 900.0, warmup=True),
        repeat(2, 100.0, time_s=9.0),
        repeat(3, 140.0, time_s=11.0),
    )
    table = phases([record])
    assert table["phase"].to_list() == ["load", "train", "evaluate", "other"]
    assert table["energy_j"].to_list() == pytest.approx([24.0, 60.0, 24.0, 12.0])
    assert table["time_s"].to_list() == pytest.approx([2.0, 5.0, 2.0, 1.0])
    assert table["energy_share"].sum() == pytest.approx(1.0)
    assert table["energy_error_j"].to_list()[:3] == pytest.approx([1.2, 3.0, 1.2])
    assert table["energy_error_j"].to_list()[3] is None
    assert set(table["n"]) == {2}
    assert table["power_w"].to_list()[1] == pytest.approx(12.0)


def test_unknown_energy_stays_unknown(tmp_path: Path) -> None:
    table = phases([write(tmp_path / "a", {}, repeat(1, None))])
    assert table["energy_j"].to_list() == [None] * 4
    assert table["time_s"].to_list() == pytest.approx([2.0, 5.0, 2.0, 1.0])


def test_phases_of_several_sources_are_not_mixed(tmp_path: Path) -> None:
    table = phases([write(tmp_path / "a", {}, repeat(1, 100.0), repeat(2, 100.0, source="estimated"))])
    assert table["source"].to_list() == ["mixed"] * 4
    assert table["energy_j"].to_list() == [None] * 4


def test_invalid_and_unfinished_trials_have_none(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "a", {}, repeat(1, 5.0, valid=False), valid=False),
        write(tmp_path / "b", {}),
    ]
    assert phases(records).height == 0
