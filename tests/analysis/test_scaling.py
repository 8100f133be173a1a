# SPDX-License-Identifier: Apache-2.0
"""What more workers gain, by hand, in samples: for a fixed amount of work and for one that grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from joulelab.analysis.scaling import scaling
from joulelab.errors import InputError
from joulelab.report import scaling as report
from tests.analysis.records import repeat, write

if TYPE_CHECKING:
    from pathlib import Path


def done(samples: int, energy_j: float, time_s: float, index: int = 1, **more: Any) -> Any:
    return msgspec.structs.replace(repeat(index, energy_j, time_s=time_s, **more), samples=samples)


def test_strong_scaling_by_hand(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "4", {"workers": 4}, done(800, 160.0, 4.0), done(800, 160.0, 4.0, 2)),
        write(tmp_path / "1", {"workers": 1}, done(800, 100.0, 10.0), done(800, 100.0, 10.0, 2)),
    ]
    one, four = scaling(records).to_dicts()
    assert (one["workers"], one["speedup"], one["efficiency"], one["energy_efficiency"]) == (1, 1.0, 1.0, 1.0)
    assert (four["workers"], four["n"], four["samples"]) == (4, 2, 800)
    assert (four["speedup"], four["efficiency"]) == pytest.approx((2.5, 0.625))
    assert four["energy_efficiency"] == pytest.approx(100.0 / 160.0)
    assert (four["speedup_ci"], four["energy_efficiency_ci"]) == pytest.approx((0.0, 0.0))
    assert four["energy_per_worker_j"] == pytest.approx(40.0)
    assert four["load_time_share"] == pytest.approx(0.2)


def test_weak_scaling_counts_the_work_that_grows(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "1", {"workers": 1, "sharing": "whole"}, done(100, 10.0, 10.0)),
        write(tmp_path / "2", {"workers": 2, "sharing": "whole"}, done(200, 22.0, 12.5)),
    ]
    two = scaling(records).to_dicts()[1]
    assert two["speedup"] == pytest.approx(1.6)
    assert two["efficiency"] == pytest.approx(0.8)
    assert two["energy_efficiency"] == pytest.approx(20 / 22)
    assert two["speedup_ci"] is None, "one repeat tells no spread"


def test_only_like_is_compared(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "1", {"workers": 1, "epochs": 1}, done(100, 10.0, 10.0)),
        write(tmp_path / "2", {"workers": 2, "epochs": 2}, done(100, 10.0, 5.0)),
        write(tmp_path / "3", {"workers": 2, "epochs": 1}, done(100, 10.0, 5.0, source="estimated")),
        write(tmp_path / "4", {"workers": 8, "epochs": 1, "emulated": True}, done(100, 10.0, 5.0)),
    ]
    rows = scaling(records).to_dicts()
    assert [(row["workers"], row["speedup"]) for row in rows] == [(1, 1.0), (2, 2.0), (2, 1.0)]
    assert rows[1]["energy_efficiency"] is None, "an estimate against a measurement"


def test_nothing_to_compare_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="number of workers"):
        scaling([write(tmp_path / "1", {"epochs": 1}, done(1, 1.0, 1.0))])


def test_the_table_says_what_its_figures_are(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "1", {"workers": 1}, done(800, 100.0, 10.0, source="estimated")),
        write(tmp_path / "2", {"workers": 2}, done(800, 120.0, 5.0, source="estimated")),
    ]
    said = report.text(records, width=140)
    assert "2.00" in said
    assert "100 %" in said
    assert "83 %" in said, "samples a joule"
    assert said.count("estimated") >= 3
    assert report.to_csv(records).splitlines()[0].startswith("workload,settings,host,workers")
    assert '"workers": 2' in report.to_json(records)
