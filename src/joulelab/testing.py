# SPDX-License-Identifier: Apache-2.0
"""Contract suites for people who add a part: what every part must hold, as pytest classes to inherit from.

pytest itself is not imported here. For a vendor of one's own:

    class TestMine(DeviceContract):
        @pytest.fixture
        def look(self):
            return lambda: Mine.find("...")

        @pytest.fixture
        def found(self, look):
            return look()
"""

from __future__ import annotations

import os
import time
from itertools import pairwise
from typing import TYPE_CHECKING

from joulelab.errors import SensorError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from joulelab.hardware.device import Device, Found

KINDS = {"gpu", "cpu", "dram", "node"}
WATCHED_S = 0.25


class DeviceContract:
    """What the meter relies on. `look` finds the devices, `found` is what it gave, devices still open."""

    def truth(self, device: Device) -> Callable[[int, int], float] | None:
        """Joules between two monotonic times as the test knows them; None where it cannot know."""
        truth: Callable[[int, int], float] | None = getattr(device, "truth_j", None)
        return truth

    def test_it_finds_something_and_problems_have_cures(self, found: Found) -> None:
        assert found.devices
        for problem in found.problems:
            assert problem.vendor
            assert problem.what
            assert problem.cure

    def test_uids_are_unique_and_stable(self, found: Found, look: Callable[[], Found]) -> None:
        uids = [d.uid for d in found.devices]
        assert all(uids)
        assert len(set(uids)) == len(uids)
        again = look()
        assert [d.uid for d in again.devices] == uids
        for device in again.devices:
            device.close()

    def test_it_says_what_it_is(self, found: Found) -> None:
        uids = {d.uid for d in found.devices}
        for device in found.devices:
            assert device.kind in KINDS
            assert device.name
            assert device.scope, "say in words what the figure includes"
            assert device.part_of != device.uid
            assert not device.part_of or device.part_of in uids or ":" in device.part_of

    def test_traits_agree_with_each_other(self, found: Found) -> None:
        for device in found.devices:
            traits = device.traits
            periods_s = (traits.counter_period_s, traits.buffer_period_s, traits.power_period_s)
            assert any(p is not None for p in periods_s), "a device without a sensor is a Problem instead"
            assert all(p is None or p > 0.0 for p in periods_s)
            assert device.source in {"counter", "integrated", "estimated"}
            assert device.source != "counter" or traits.counter_period_s is not None
            assert device.source != "integrated" or traits.counter_period_s is None
            assert traits.counter_range_j is None or traits.counter_range_j > 0.0
            assert (
                0.0 <= traits.power_min_w < traits.power_max_w
                or traits.power_min_w == traits.power_max_w > 0.0
            )
            assert 0.0 <= traits.gain_error < 1.0
            if traits.buffer_period_s is not None:
                assert traits.buffer_depth_s > traits.buffer_period_s
                assert traits.buffer_window_s >= 0.0
                assert traits.buffer_lag_s >= 0.0

    def test_the_counter_rises_no_faster_than_the_power_allows(self, found: Found) -> None:
        for device in self._with(found, "counter_period_s"):
            traits = device.traits
            readings = []
            for _ in _watch():
                before_ns = time.monotonic_ns()
                reading = device.energy()
                assert before_ns <= reading.time_ns <= time.monotonic_ns()
                assert reading.half_width_ns >= 0
                readings.append(reading)
            range_j = traits.counter_range_j
            gained_j = [_gained(a.energy_j, b.energy_j, range_j=range_j) for a, b in pairwise(readings)]
            assert all(g >= 0.0 for g in gained_j)
            span_s = (readings[-1].time_ns - readings[0].time_ns) / 1e9 + 2 * (traits.counter_period_s or 0.0)
            if range_j is None or span_s * traits.power_max_w < range_j:
                assert sum(gained_j) <= span_s * traits.power_max_w * (1.0 + traits.gain_error) + 0.01

    def test_the_truth_is_inside_the_bound_of_a_plain_difference(self, found: Found) -> None:
        for device in self._with(found, "counter_period_s"):
            truth_j = self.truth(device)
            if truth_j is None:
                continue
            traits = device.traits
            first = last = device.energy()
            energy_j = 0.0
            for _ in _watch():
                reading = device.energy()
                energy_j += _gained(last.energy_j, reading.energy_j, range_j=traits.counter_range_j)
                last = reading
            true_j = truth_j(first.time_ns, last.time_ns)
            # Twice the period: an update may come late by up to one.
            late_s = 2 * (traits.counter_period_s or 0.0) + (first.half_width_ns + last.half_width_ns) / 1e9
            assert abs(energy_j - true_j) <= late_s * traits.power_max_w + traits.gain_error * true_j + 0.01

    def test_buffer_samples_come_once_and_in_order(self, found: Found) -> None:
        for device in self._with(found, "buffer_period_s"):
            start_ns = time.monotonic_ns()
            seen = list(device.samples(start_ns - round(device.traits.buffer_depth_s * 1e9)))
            for _ in _watch():
                after_ns = seen[-1].time_ns if seen else start_ns
                news = device.samples(after_ns)
                assert all(s.time_ns > after_ns for s in news)
                seen += news
            assert all(a.time_ns < b.time_ns for a, b in pairwise(seen))
            assert seen
            # Stamps come from another clock: it may be off by what that takes to read.
            assert seen[-1].time_ns <= time.monotonic_ns() + 1_000_000
            most_w = device.traits.power_max_w * (1.0 + device.traits.gain_error)
            assert all(0.0 <= s.power_w <= 1.5 * most_w for s in seen)

    def test_power_is_in_watts(self, found: Found) -> None:
        for device in self._with(found, "power_period_s"):
            assert 0.0 <= device.power_w() <= 1.5 * device.traits.power_max_w

    def test_the_cap_lies_inside_its_range(self, found: Found) -> None:
        for limits in (d.limits() for d in found.devices):
            if limits is not None:
                assert 0.0 <= limits.min_w <= limits.max_w
                assert limits.min_w <= limits.now_w <= limits.max_w
                assert limits.min_w <= limits.default_w <= limits.max_w

    def test_what_it_has_not_is_refused_in_words(self, found: Found) -> None:
        for device in found.devices:
            traits = device.traits
            if traits.counter_period_s is None:
                assert _refuses(device.energy)
            if traits.power_period_s is None:
                assert _refuses(device.power_w)
            if traits.buffer_period_s is None:
                assert not device.samples(0)

    def test_it_may_be_watched_and_closed_twice(self, found: Found) -> None:
        for device in found.devices:
            device.watch((os.getpid(),))
            device.close()
            device.close()

    def _with(self, found: Found, trait: str) -> list[Device]:
        return [d for d in found.devices if getattr(d.traits, trait) is not None]


def _watch() -> Iterator[None]:
    end_ns = time.monotonic_ns() + round(WATCHED_S * 1e9)
    while time.monotonic_ns() < end_ns:
        yield
        time.sleep(0.005)


def _gained(before_j: float, after_j: float, *, range_j: float | None) -> float:
    return (after_j - before_j) % range_j if range_j else after_j - before_j


def _refuses(read: Callable[[], object]) -> bool:
    try:
        read()
    except SensorError as error:
        return bool(error.message)
    return False
