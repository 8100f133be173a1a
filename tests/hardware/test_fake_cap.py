# SPDX-License-Identifier: Apache-2.0
"""A fake's cap cuts its curve from the moment it is set, for all processes that look."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from joulelab.errors import InputError, SensorError
from joulelab.hardware.caps_fake import CONTROL, FakeCap
from joulelab.hardware.device import Limits
from joulelab.hardware.fake import Fake, Sensors
from joulelab.hardware.fake_cap import CapLog
from joulelab.hardware.fake_file import read
from joulelab.hardware.loads import Constant, Load, limited

if TYPE_CHECKING:
    from pathlib import Path

LIMITS = Limits(now_w=700.0, default_w=700.0, min_w=200.0, max_w=700.0)


class Clock:
    now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def test_the_curve_is_cut_from_then_on(tmp_path: Path) -> None:
    clock = Clock()
    log = CapLog(tmp_path / "card.caps", LIMITS, clock=clock)
    card = Fake(
        power=Constant(600.0),
        sensors=Sensors(counter_period_s=0.1, power_period_s=0.1, buffer_period_s=0.02),
        cap_log=log,
        clock=clock,
    )
    clock.now_ns = 10 * 10**9
    assert card.energy_j() == pytest.approx(6000.0)
    log.put(400.0)
    clock.now_ns = 20 * 10**9
    assert card.energy_j() == pytest.approx(10_000.0), "what was drawn before stays as it was"
    assert card.power_w() == 400.0
    assert {round(sample.power_w) for sample in card.samples(0)} == {400}
    assert card.truth_j(5 * 10**9, 15 * 10**9) == pytest.approx(5000.0)
    # Another process, which looks for the first time now.
    assert CapLog(tmp_path / "card.caps", LIMITS).limits().now_w == 400.0
    log.put(700.0)
    clock.now_ns = 30 * 10**9
    assert card.energy_j() == pytest.approx(16_000.0)
    limits = card.limits()
    assert limits is not None
    assert limits.now_w == 700.0


def test_caps_of_an_earlier_start_of_the_machine_are_forgotten(tmp_path: Path) -> None:
    (tmp_path / "card.caps").write_text("of-yesterday 5 300\n", encoding="ascii")
    assert CapLog(tmp_path / "card.caps", LIMITS).limits() == LIMITS


def test_a_line_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    log = CapLog(tmp_path / "card.caps", LIMITS)
    log.put(300.0)
    with log.path.open("a", encoding="ascii") as file:
        file.write(log.path.read_text(encoding="ascii").replace("300", "4").rstrip("\n"))
    assert log.limits().now_w == 300.0


def test_out_of_range(tmp_path: Path) -> None:
    with pytest.raises(SensorError, match=r"100 W is not legal\n.*200 to 700 W"):
        CapLog(tmp_path / "card.caps", LIMITS).put(100.0)


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    log = CapLog(tmp_path / "nowhere" / "log", LIMITS)
    with pytest.raises(SensorError, match=r"cannot be written: No such file(.|\n)*copy the fake's file"):
        log.put(LIMITS.min_w)


def test_slopes_are_cut_where_they_cross() -> None:
    load = Load([(10.0, 0.0, 100.0), (10.0, 100.0, 0.0), (5.0, 80.0, 80.0)])
    cut = limited(load, 50.0)
    assert cut.max_w == 50.0
    assert cut.period_s == pytest.approx(load.period_s)
    for t_s in (0.5 * k for k in range(50)):
        assert cut.power_w(t_s) == pytest.approx(min(50.0, load.power_w(t_s)))
    assert cut.integral_j(0.0, 25.0) == pytest.approx(2 * (125.0 + 250.0) + 250.0)


def test_caps_of_a_file(tmp_path: Path) -> None:
    cap = {"now_w": 700, "default_w": 700, "min_w": 200, "max_w": 700}
    file = tmp_path / "node.json"
    file.write_text(json.dumps([{"count": 2, "cap": cap}, {"kind": "cpu"}]), encoding="utf-8")
    first, second = FakeCap.find(str(file)).caps
    assert (first.uid, first.simulated, first.kind) == ("gpu:fake-node-0", True, "gpu")
    first.write(CONTROL, 300_000)
    assert [c.controls()[CONTROL] for c in FakeCap.find(str(file)).caps] == [300_000, 700_000]
    devices = [Fake(**arguments) for arguments in read(str(file))]
    assert [d.limits() and d.limits().now_w for d in devices] == [300.0, 700.0, None]  # type: ignore[union-attr]
    assert second.limits().now_w == 700.0


def test_a_fake_without_a_cap(tmp_path: Path) -> None:
    (tmp_path / "node.json").write_text("{}", encoding="utf-8")
    assert "has a cap" in FakeCap.find(str(tmp_path / "node.json")).problems[0].what
    with pytest.raises(InputError, match="without a file has no cap"):
        FakeCap.find("")
