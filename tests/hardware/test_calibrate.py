# SPDX-License-Identifier: Apache-2.0
"""The whole calibration, on the stand-in library and a load that only says when it is busy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from joulelab.hardware import verdict
from joulelab.hardware.calibrate import CardReport, Lengths, calibrate
from joulelab.hardware.find import find

if TYPE_CHECKING:
    from tests.fakes.nvml import FakeNvml

STAND_IN = Path(__file__).parents[1] / "fakes" / "burner.py"
QUICK = Lengths(
    quiet_s=0.8,
    warm_s=0.2,
    rest_s=0.8,
    phase_s=0.8,
    drift_s=1.6,
    irregular_s=3.0,
    long_s=1.3,
    settle_s=0.2,
    tail_s=0.15,
    start_s=20.0,
)


@pytest.fixture
def bench(nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    (tmp_path / "load").write_text("0 125\n", encoding="ascii")
    monkeypatch.setenv("FAKENVML_LOAD", str(tmp_path / "load"))
    monkeypatch.setenv(verdict.FOLDER, str(tmp_path / "verdicts"))
    return nvml


def run(folder: Path, *how: str, lengths: Lengths = QUICK) -> CardReport:
    load = [sys.executable, str(STAND_IN), str(folder / "load"), "125", "690", *how]
    (card,) = calibrate(names=["nvidia"], lengths=lengths, load=load).cards
    return card


def test_sensors_that_see_all_but_the_instant_field(bench: FakeNvml, tmp_path: Path) -> None:
    bench.set(gpus=1, counter_s=0.05, sample_lag_ms=25, sample_window_ms=60, instant_ms=12)
    card = run(tmp_path)
    assert not card.troubles
    assert card.load == "a stand-in"
    found = card.verdict
    assert found is not None
    assert found.counter_is_trusted
    assert found.buffer_is_trusted
    assert found.counter_period_s == pytest.approx(0.05, rel=0.02)
    assert found.buffer_lag_s == pytest.approx(0.025, abs=0.003)
    assert found.buffer_window_s == pytest.approx(0.060, abs=0.006)
    assert set(card.costs) == {"counter", "buffer", "averaged field", "instant field"}
    by_train = {row.train: row for row in card.rows}
    assert by_train["drifting"].counter_w == pytest.approx(125 + 565 * 0.23 / 1.04, rel=0.05)
    assert by_train["long"].counter_w == pytest.approx(407.0, rel=0.15)
    # What was found is what the meter works with from now on.
    (device,) = find(["nvidia"]).devices
    assert device.traits.buffer_lag_s == found.buffer_lag_s
    assert device.traits.buffer_lag_error_s == found.buffer_lag_error_s
    device.close()


def test_a_counter_that_looks_at_a_quarter_of_its_period(bench: FakeNvml, tmp_path: Path) -> None:
    bench.set(gpus=1, counter_s=0.05, counter_sees=0.25, instant_ms=12)
    card = run(tmp_path)
    assert card.verdict is not None
    assert not card.verdict.counter_is_trusted
    (device,) = find(["nvidia"]).devices
    assert (device.source, device.traits.counter_period_s) == ("integrated", None)
    device.close()


def test_without_a_load_what_was_seen_is_still_told(bench: FakeNvml, tmp_path: Path) -> None:
    bench.set(gpus=1, counter_s=0.05)
    card = run(tmp_path, "--refuses")
    assert card.verdict is None
    assert "torch 9.9 sees no GPU (cure: install another torch)" in card.troubles[0]
    assert card.costs["counter"].reads == 20
    assert card.periods_s["buffer"] == pytest.approx(0.02, abs=0.002)
    assert not list(tmp_path.glob("verdicts/*"))


def test_a_load_that_dies_half_way_leaves_the_rows_before(bench: FakeNvml, tmp_path: Path) -> None:
    bench.set(gpus=1, counter_s=0.05)
    card = run(tmp_path, "--dies-after", "3")
    assert [row.train for row in card.rows] == ["in step, phase 0/4", "in step, phase 1/4"]
    assert any("the load ended" in words for words in card.troubles)
    assert card.verdict is not None, "two phases say something, too"


def test_a_card_that_is_lost_meanwhile(bench: FakeNvml, tmp_path: Path) -> None:
    bench.set(gpus=1, counter_s=0.05, lost_after_s=1.5)
    card = run(tmp_path)
    assert any("GPU is lost" in words for words in card.troubles)


def test_no_gpu_to_calibrate(no_nvml: None) -> None:
    found = calibrate(names=["estimate"])
    assert not found.cards
    assert found.problems[-1].what == "no GPU with a counter or a sample buffer"
