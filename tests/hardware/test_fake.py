# SPDX-License-Identifier: Apache-2.0
"""The fake against its own truth, on a clock that the test turns."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from typing import Any

import pytest

from joulelab.errors import InputError, SensorError
from joulelab.hardware.fake import Fake, Sensors
from joulelab.hardware.loads import Constant, Ramp, Square, Steps


class Clock:
    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_ns = round(now_s * 1e9)

    def __call__(self) -> int:
        return self.now_ns

    def go(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


def test_the_counter_moves_at_its_updates_only() -> None:
    clock = Clock(1000.0)
    fake = Fake(power=Constant(600.0), sensors=Sensors(counter_period_s=0.1), clock=clock)
    before_j = fake.energy_j()
    clock.go(0.099)
    assert fake.energy_j() == before_j
    clock.go(0.002)
    assert fake.energy_j() - before_j == pytest.approx(60.0, abs=0.002)


def test_truth_is_within_two_periods_of_power_of_a_plain_difference() -> None:
    clock, rng = Clock(), random.Random(1)
    fake = Fake(power=Steps(), sensors=Sensors(counter_jitter_s=0.03), clock=clock, seed=4)
    for _ in range(2000):
        a_ns, a_j = clock(), fake.energy_j()
        clock.go(rng.uniform(0.0, 2.0))
        gained_j = fake.energy_j() - a_j
        assert gained_j >= 0.0
        assert abs(gained_j - fake.truth_j(a_ns, clock())) <= 0.13 * 700.0 + 0.002


def test_jitter_makes_updates_late_never_early() -> None:
    clock = Clock(1000.0)
    sensors = Sensors(counter_jitter_s=0.05)
    fake = Fake(power=Constant(100.0), sensors=sensors, clock=clock)
    late = 0
    for _ in range(200):
        # Just before the regular time of an update the one before must have come, the next not.
        clock.go(0.0999999)
        behind_j = fake.truth_j(0, clock()) - fake.energy_j()
        assert -0.001 <= behind_j <= 0.1 * 100.0 + 0.001
        clock.go(0.0000001)
        late += fake.truth_j(0, clock()) - fake.energy_j() > 0.01
    assert late > 150


def test_the_counter_wraps_at_its_range() -> None:
    clock = Clock()
    fake = Fake(power=Constant(500.0), sensors=Sensors(counter_range_j=300.0), clock=clock)
    total_j, last_j = 0.0, fake.energy_j()
    for _ in range(100):
        clock.go(0.2)
        now_j = fake.energy_j()
        assert 0.0 <= now_j < 300.0
        total_j += (now_j - last_j) % 300.0
        last_j = now_j
    assert total_j == pytest.approx(500.0 * 20.0, abs=0.01)


def test_the_unit_of_the_counter_is_kept() -> None:
    clock = Clock()
    fake = Fake(power=Constant(33.3), sensors=Sensors(counter_unit_j=2.0), clock=clock)
    for _ in range(50):
        clock.go(0.1)
        assert fake.energy_j() % 2.0 == 0.0


def test_gain_is_in_every_sensor_and_not_in_the_truth() -> None:
    clock = Clock()
    sensors = Sensors(buffer_period_s=0.02, power_period_s=0.1, gain=1.05)
    fake = Fake(power=Constant(100.0), sensors=sensors, clock=clock)
    a_j, a_ns = fake.energy_j(), clock()
    clock.go(10.0)
    assert fake.energy_j() - a_j == pytest.approx(1050.0, abs=0.01)
    assert fake.truth_j(a_ns, clock()) == pytest.approx(1000.0)
    assert fake.power_w() == pytest.approx(105.0)
    assert {round(s.power_w, 6) for s in fake.samples(0)} == {105.0}
    assert fake.traits.gain_error == pytest.approx(0.05)


def test_a_sample_is_the_mean_of_its_window_around_its_lag() -> None:
    clock = Clock()
    load = Ramp(from_w=0.0, to_w=700.0, rise_s=5000.0)
    sensors = Sensors(buffer_period_s=0.02, buffer_window_s=0.04, buffer_lag_s=0.015, buffer_depth_s=2.4)
    fake = Fake(power=load, sensors=sensors, clock=clock)
    samples = fake.samples(0)
    assert 115 <= len(samples) <= 121
    for sample in samples:
        # A straight line's mean over a window is its value at the centre.
        assert sample.power_w == pytest.approx(load.power_w(sample.time_ns / 1e9 - 0.015), rel=1e-9)
        assert sample.time_ns <= clock() - 5_000_000  # it remembers 5 ms after its stamp


def test_no_sample_comes_twice_or_is_left_out() -> None:
    clock, rng = Clock(), random.Random(2)
    sensors = Sensors(buffer_period_s=0.02, buffer_jitter_s=0.01, buffer_window_s=0.04)
    fake = Fake(power=Steps(), sensors=sensors, clock=clock, seed=9)
    seen = [s.time_ns for s in fake.samples(clock() - 10**9)]
    first = seen[0]
    while clock() < first + 20 * 10**9:
        clock.go(rng.uniform(0.0, 1.5))
        seen += [s.time_ns for s in fake.samples(seen[-1])]
    assert seen == sorted(set(seen))
    assert len(seen) == pytest.approx((seen[-1] - seen[0]) / 2e7 + 1, abs=1.01)


def test_the_power_field_is_a_late_mean() -> None:
    clock = Clock(1000.05)
    sensors = Sensors(counter_period_s=None, power_period_s=0.1, power_window_s=1.0)
    fake = Fake(power=Square(), sensors=sensors, clock=clock)
    assert fake.source == "integrated"
    assert fake.power_w() == pytest.approx(577.0)
    with pytest.raises(SensorError, match="no energy counter"):
        fake.energy_j()


def test_a_stuck_counter_stands_and_the_power_goes_on() -> None:
    clock = Clock()
    sensors = Sensors(stuck_after_s=1.0, power_period_s=0.1)
    fake = Fake(power=Constant(100.0), sensors=sensors, clock=clock)
    clock.go(1.5)
    stuck_j = fake.energy_j()
    clock.go(10.0)
    assert fake.energy_j() == stuck_j
    assert fake.power_w() == pytest.approx(100.0)


def test_a_lost_device_refuses_everything() -> None:
    clock = Clock()
    sensors = Sensors(lost_after_s=1.0, buffer_period_s=0.02, power_period_s=0.1)
    fake = Fake(power=Constant(100.0), sensors=sensors, clock=clock)
    fake.energy_j()
    clock.go(1.0)
    for read in (fake.energy_j, fake.power_w, lambda: fake.samples(0)):
        with pytest.raises(SensorError, match="no longer answers"):
            read()


def test_a_denied_sensor_is_not_there() -> None:
    sensors = Sensors(denied=("counter",), buffer_period_s=0.02)
    fake = Fake(power=Constant(100.0), sensors=sensors, clock=Clock())
    assert fake.traits.counter_period_s is None
    assert fake.traits.buffer_period_s == 0.02


def test_reading_costs_what_it_is_told() -> None:
    fake = Fake(power=Constant(100.0), sensors=Sensors(read_cost_s=0.01))
    before_ns = time.perf_counter_ns()
    reading = fake.energy()
    assert time.perf_counter_ns() - before_ns >= 10_000_000
    assert reading.half_width_ns >= 5_000_000


def test_two_processes_see_the_same_device() -> None:
    code = (
        "import time; from joulelab.hardware.fake import Fake; from joulelab.hardware.loads import Steps\n"
        "f = Fake(power=Steps(seed=3)); t = time.monotonic_ns(); print(t, f.truth_j(0, t))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    then_ns, other_j = out.split()
    here = Fake(power=Steps(seed=3))
    assert here.truth_j(0, int(then_ns)) == float(other_j)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("counter_period_s", 0.0),
        ("counter_period_s", float("nan")),
        ("gain", -1.0),
        ("counter_jitter_s", 0.1),
        ("denied", ("energy",)),
    ],
)
def test_impossible_sensors_are_refused(name: str, value: object) -> None:
    arguments: dict[str, Any] = {name: value}
    with pytest.raises(InputError):
        Sensors(**arguments)
