# SPDX-License-Identifier: Apache-2.0
"""One device under every kind of sensor."""

from __future__ import annotations

import random

import pytest

from joulelab.hardware.device import Device, Traits
from joulelab.meter.book import PATIENCE_NS
from joulelab.meter.channel import (
    FAST_READS_NS,
    Channel,
    EdgeChannel,
    FastChannel,
    PowerChannel,
    ShapeChannel,
)
from joulelab.meter.checked import open_channel
from tests.meter.loads import Bench, Clock, Load, drive, ns, square

EDGES = Traits(counter_period_s=0.1, power_max_w=700.0)
SHAPE = Traits(
    counter_period_s=0.1,
    buffer_period_s=0.02,
    buffer_window_s=0.04,
    buffer_lag_s=0.015,
    buffer_depth_s=2.4,
    power_max_w=700.0,
)
FAST = Traits(counter_period_s=0.001, power_max_w=700.0)
POWER = Traits(power_period_s=0.001, power_max_w=700.0)


@pytest.mark.parametrize(
    ("make", "traits"),
    [(EdgeChannel, EDGES), (ShapeChannel, SHAPE), (FastChannel, FAST), (PowerChannel, POWER)],
)
def test_the_truth_lies_inside_the_bound(make: type[EdgeChannel], traits: Traits) -> None:
    clock, load = Clock(), square(40)
    channel = make(Bench(load, clock, traits=traits))
    drive(channel, clock, 20.0)
    for start_s, end_s in ((3.01, 3.9), (5.0, 15.0), (7.77, 9.21), (10.0, 10.2)):
        start, end = channel.curve.mark(ns(start_s)), channel.curve.mark(ns(end_s))
        energy_j, bound_j = channel.curve.between(start, end)
        assert abs(energy_j - (load.energy(end_s) - load.energy(start_s))) <= bound_j
    assert channel.ready


@pytest.mark.parametrize(
    ("make", "traits"), [(EdgeChannel, EDGES), (ShapeChannel, SHAPE), (FastChannel, FAST)]
)
def test_what_is_wanted_comes_in_well_under_a_fifth_of_a_second(
    make: type[EdgeChannel], traits: Traits
) -> None:
    for offset_s in (0.0, 0.03, 0.06, 0.09):
        clock, load = Clock(), square(40)
        channel = make(Bench(load, clock, traits=traits))
        drive(channel, clock, 10.0 + offset_s)
        wanted_ns = clock.now_ns
        channel.want(wanted_ns)
        while channel.covered_ns < wanted_ns:
            clock.wait_until(channel.due_ns)
            channel.work(clock.now_ns)
            assert clock.now_ns < wanted_ns + 180_000_000
        _holds(channel, load, start_s=5.0, end_s=wanted_ns * 1e-9)


@pytest.mark.parametrize(
    ("make", "traits"), [(EdgeChannel, EDGES), (ShapeChannel, SHAPE), (FastChannel, FAST)]
)
def test_asked_all_the_time_and_answered_in_haste_it_still_holds(
    make: type[EdgeChannel], traits: Traits
) -> None:
    """Windows back to back, each asked for at once and marked when patience ends, covered or not."""
    clock, load, draw = Clock(), square(130), random.Random(3)
    channel = make(Bench(load, clock, traits=traits))
    drive(channel, clock, 3.0)
    while clock.now_ns < ns(100.0):
        start_ns = clock.now_ns
        drive(channel, clock, start_ns * 1e-9 + draw.uniform(0.05, 0.5))
        end_ns = clock.now_ns
        channel.want(end_ns)
        drive(channel, clock, end_ns * 1e-9 + draw.uniform(0.0, PATIENCE_NS * 1e-9))
        _holds(channel, load, start_s=start_ns * 1e-9, end_s=end_ns * 1e-9)


def _holds(channel: Channel, load: Load, *, start_s: float, end_s: float) -> None:
    energy_j, bound_j = channel.curve.between(channel.curve.mark(ns(start_s)), channel.curve.mark(ns(end_s)))
    assert abs(energy_j - (load.energy(end_s) - load.energy(start_s))) <= bound_j


def test_few_counter_reads_where_there_is_a_buffer() -> None:
    clock = Clock()
    device = Bench(square(130), clock, traits=SHAPE)
    channel = ShapeChannel(device)
    channel._cost_s = 0.0038
    drive(channel, clock, 10.0)
    before = device.reads
    channel._cost_s = 1.0  # as dear as can be: anchors every two seconds
    drive(channel, clock, 20.0)
    assert device.reads - before < 60


def test_on_a_busy_machine_the_search_for_edges_rests() -> None:
    """Every read comes late, by anything up to a whole period: no two enclose an edge closely for long."""
    clock, load, late = Clock(), square(130), random.Random(5)
    device = Bench(load, clock, traits=SHAPE)
    channel = ShapeChannel(device)
    while clock.now_ns < ns(60.0):
        clock.wait_until(channel.due_ns + int(late.uniform(0.03, 0.1) * 1e9))
        channel.work(clock.now_ns)
    assert 20 < device.reads < 300  # 549 without the rests
    assert not channel.lost
    _holds(channel, load, start_s=10.0, end_s=40.0)


def test_fast_counters_are_read_at_most_twenty_times_a_second() -> None:
    clock = Clock()
    device = Bench(square(40), clock, traits=FAST)
    drive(FastChannel(device), clock, 11.0)
    assert device.reads <= 10.0 / (FAST_READS_NS * 1e-9) + 2


def test_a_device_that_leaves_is_lost_in_words_and_keeps_what_was_read() -> None:
    clock, load = Clock(), square(40)
    device = Bench(load, clock, traits=EDGES)
    channel = EdgeChannel(device)
    drive(channel, clock, 10.0)
    device.broken = True
    drive(channel, clock, 10.5)
    assert channel.lost == "the device has left"
    assert channel.covered_ns > ns(1000)
    energy_j, bound_j = channel.curve.between(channel.curve.mark(ns(4)), channel.curve.mark(ns(6)))
    assert abs(energy_j - (load.energy(6) - load.energy(4))) <= bound_j


def test_a_counter_that_stands_still_is_lost() -> None:
    clock = Clock()
    device = Bench(square(40), clock, traits=EDGES)
    device.stuck = True
    channel = EdgeChannel(device)
    drive(channel, clock, 6.0)
    assert "stands still" in channel.lost


def test_a_sensor_that_sees_a_slice_says_so() -> None:
    channel = PowerChannel(Bench(square(1), Clock(), traits=Traits(power_period_s=0.1, power_window_s=0.025)))
    assert "sees 25% of the time" in channel.flags[0]


def test_no_sensor_is_lost_from_the_beginning() -> None:
    assert "no sensor" in open_channel(Device()).lost


def test_a_driver_that_fails_for_a_moment_loses_nothing() -> None:
    clock, load = Clock(), square(40)
    bench = Bench(load, clock, traits=EDGES)
    channel = EdgeChannel(bench)
    drive(channel, clock, 4.0)
    bench.broken = True
    drive(channel, clock, 4.15)  # however often it is due by then, three tries take longer than this
    bench.broken = False
    drive(channel, clock, 10.0)
    assert not channel.lost
    _holds(channel, load, start_s=3.5, end_s=9.0)


def test_a_fast_counter_that_stands_still_is_not_read_as_no_power() -> None:
    clock, load = Clock(), square(40)
    bench = Bench(load, clock, traits=FAST)
    channel = FastChannel(bench)
    drive(channel, clock, 4.0)
    still_j = bench.counter.read(4.0)
    bench.counter.values = [min(value_j, still_j) for value_j in bench.counter.values]
    drive(channel, clock, 6.0)
    _holds(channel, load, start_s=3.0, end_s=5.9)
    drive(channel, clock, 8.0)
    assert "stands still" in channel.lost


def test_a_sampler_that_was_stopped_says_that_the_counter_may_have_wrapped() -> None:
    clock, load = Clock(), square(40)
    traits = Traits(counter_period_s=0.001, counter_range_j=1000.0, power_max_w=700.0)
    channel = FastChannel(Bench(load, clock, traits=traits))
    drive(channel, clock, 4.0)
    clock.now_ns = ns(12.0)
    drive(channel, clock, 14.0)
    _holds(channel, load, start_s=3.0, end_s=13.0)
    _holds(channel, load, start_s=5.0, end_s=11.0)
    assert any("wrapped unseen" in flag for flag in channel.flags)
