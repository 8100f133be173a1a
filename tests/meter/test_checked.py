# SPDX-License-Identifier: Apache-2.0
"""A counter held against power."""

from __future__ import annotations

import pytest

from joulelab.hardware.device import Traits
from joulelab.meter.checked import CheckedChannel, open_channel
from tests.meter.loads import Bench, Clock, Load, drive, ns, square

EDGES = Traits(counter_period_s=0.1, power_period_s=0.02, power_max_w=1400.0)
SHAPE = Traits(
    counter_period_s=0.1,
    buffer_period_s=0.02,
    buffer_window_s=0.04,
    buffer_lag_s=0.015,
    buffer_depth_s=2.4,
    power_max_w=1400.0,
)


def _channel(traits: Traits, *, gain: float) -> tuple[CheckedChannel, Bench, Clock]:
    clock = Clock()
    device = Bench(square(60), clock, traits=traits, gain=gain)
    channel = open_channel(device)
    assert isinstance(channel, CheckedChannel)
    return channel, device, clock


@pytest.mark.parametrize("traits", [EDGES, SHAPE])
@pytest.mark.parametrize("gain", [1.0, 1.1, 0.9])
def test_a_counter_that_agrees_is_used(traits: Traits, gain: float) -> None:
    channel, device, clock = _channel(traits, gain=gain)
    drive(channel, clock, 10.0)
    assert (channel.source, channel.flags) == ("counter", [])
    energy_j, bound_j = channel.curve.between(channel.curve.mark(ns(5)), channel.curve.mark(ns(8)))
    assert abs(energy_j / gain - (device.load.energy(8) - device.load.energy(5))) <= bound_j


@pytest.mark.parametrize("traits", [EDGES, SHAPE])
@pytest.mark.parametrize("gain", [0.5, 1.8])
def test_a_counter_that_disagrees_gives_way_to_power(traits: Traits, gain: float) -> None:
    channel, device, clock = _channel(traits, gain=gain)
    drive(channel, clock, 10.0)
    assert channel.source == "integrated"
    assert channel.flags == ["counter and power of gpu:bench disagree: using power"]
    energy_j, bound_j = channel.curve.between(channel.curve.mark(ns(5)), channel.curve.mark(ns(8)))
    assert abs(energy_j - (device.load.energy(8) - device.load.energy(5))) <= bound_j


def test_a_counter_that_stands_still_gives_way_to_power() -> None:
    channel, device, clock = _channel(EDGES, gain=1.0)
    device.stuck = True
    drive(channel, clock, 10.0)
    assert channel.source == "integrated"
    assert "stands still" in channel.flags[0]
    energy_j, bound_j = channel.curve.between(channel.curve.mark(ns(5)), channel.curve.mark(ns(8)))
    assert abs(energy_j - (device.load.energy(8) - device.load.energy(5))) <= bound_j


def test_a_counter_lost_later_gives_way_too() -> None:
    channel, device, clock = _channel(EDGES, gain=1.0)
    drive(channel, clock, 8.0)
    assert channel.source == "counter"
    device.stuck = True
    device.counter.values = [0.0] * len(device.counter.values)
    drive(channel, clock, 15.0)
    assert channel.source == "integrated"


def test_a_device_that_leaves_altogether_is_lost() -> None:
    channel, device, clock = _channel(EDGES, gain=1.0)
    drive(channel, clock, 8.0)
    device.broken = True
    drive(channel, clock, 9.0)
    assert channel.lost == "the device has left"


def test_a_blind_power_sensor_does_not_judge_a_counter() -> None:
    """It looks at 25 of each 100 ms: of a load in step with it, it sees one half only."""
    clock = Clock()
    load = Load((step for _ in iter(int, 1) for step in ((0.050, 700.0), (0.050, 0.0))), 40)
    traits = Traits(counter_period_s=0.1, power_period_s=0.1, power_window_s=0.025, power_max_w=700.0)

    class InStep(Bench):
        def power_w(self) -> float:
            update_s = self.clock.now_ns // 100_000_000 / 10
            return self.load.mean(update_s - 0.025, update_s)

    channel = open_channel(InStep(load, clock, traits=traits))
    drive(channel, clock, 8.0)
    assert channel.source == "counter"
    energy_j, bound_j = channel.curve.between(channel.curve.mark(ns(2.0)), channel.curve.mark(ns(7.0)))
    assert abs(energy_j - 1750.0) <= bound_j < 50.0
