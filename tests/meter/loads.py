# SPDX-License-Identifier: Apache-2.0
"""Power as a function of time with its exact integral, and sensors that look at it."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from joulelab.errors import SensorError
from joulelab.hardware.device import Device, Reading, Sample, Traits
from joulelab.meter.counter import Unwrapped
from joulelab.meter.edges import EdgeCurve
from joulelab.meter.integral import IntegralCurve
from joulelab.meter.lock import Lock
from joulelab.meter.shape import ShapeCurve

if TYPE_CHECKING:
    from joulelab.meter.channel import Channel

LOW_W, HIGH_W = 0.0, 700.0


class Load:
    """Steps: power_w[i] from time_s[i] to time_s[i + 1]."""

    def __init__(self, steps: Iterator[tuple[float, float]], length_s: float) -> None:
        self.times: list[float] = []
        self.powers: list[float] = []
        self.joules: list[float] = []
        self.length_s = length_s
        time_s = energy_j = 0.0
        for span_s, power_w in steps:
            self.times.append(time_s)
            self.powers.append(power_w)
            self.joules.append(energy_j)
            time_s += span_s
            energy_j += span_s * power_w
            if time_s > length_s:
                break

    def energy(self, time_s: float) -> float:
        """Joules since 0, exact."""
        i = max(0, bisect_right(self.times, time_s) - 1)
        return self.joules[i] + self.powers[i] * (time_s - self.times[i])

    def mean(self, start_s: float, end_s: float) -> float:
        return (self.energy(end_s) - self.energy(start_s)) / (end_s - start_s)


def constant(length_s: float) -> Load:
    return Load(iter([(length_s + 1, 600.0)]), length_s)


def square(length_s: float) -> Load:
    return Load((step for _ in iter(int, 1) for step in ((0.160, 690.0), (0.040, 125.0))), length_s)


def steps(length_s: float) -> Load:
    draw = random.Random(7)
    return Load(((draw.uniform(0.02, 0.5), draw.uniform(125.0, 700.0)) for _ in iter(int, 1)), length_s)


LOADS = {"constant": constant, "square": square, "steps": steps}


class Counter:
    """An energy counter that moves once a period, in steps of 1 mJ, and starts again at its range."""

    def __init__(
        self, load: Load, *, period_s: float = 0.1, jitter_s: float = 0.0, range_j: float = math.inf
    ) -> None:
        draw = random.Random(3)
        count = int(load.length_s / period_s) + 2
        self.moves = [0.0] + [0.037 + i * period_s + draw.uniform(-jitter_s, jitter_s) for i in range(count)]
        self.values = [math.floor(load.energy(move) * 1000) / 1000 for move in self.moves]
        self.range_j = range_j

    def read(self, time_s: float) -> float:
        value_j = self.values[bisect_right(self.moves, time_s) - 1]
        return value_j if math.isinf(self.range_j) else value_j % self.range_j


def ns(time_s: float) -> int:
    return int(time_s * 1e9)


def locked(
    counter: Counter, length_s: float, *, late_s: float = 0.001, read_s: float = 0.0036
) -> tuple[EdgeCurve, Lock, int]:
    """A curve of edges found by the lock, by reads that come up to `late_s` late and take `read_s`."""
    draw = random.Random(11)
    curve = EdgeCurve(power_min_w=LOW_W, power_max_w=HIGH_W, resolution_s=0.1)
    lock = Lock(0.1)
    total = Unwrapped(range_j=None if math.isinf(counter.range_j) else counter.range_j, power_max_w=HIGH_W)
    now_s, reads = 0.0, 0
    while now_s < length_s:
        now_s = max(now_s, lock.next_ns * 1e-9) + draw.uniform(0, late_s)
        at_s = now_s + draw.uniform(0, read_s)
        moved = total.see(ns(at_s), counter.read(at_s))
        edge = lock.see(ns(now_s + read_s / 2), half_ns=ns(read_s / 2), moved=moved)
        if edge is not None:
            curve.add(edge.time_ns, half_ns=edge.half_ns, energy_j=total.total_j)
        now_s += read_s
        reads += 1
    return curve, lock, reads


def shaped(
    load: Load,
    counter: Counter,
    length_s: float,
    *,
    lag_s: float = 0.015,
    window_s: float = 0.040,
    rest_s: float = 2.0,
) -> ShapeCurve:
    """Anchors `rest_s` apart, and samples about every 20 ms, each the mean of 40 ms and 15 ms late."""
    draw = random.Random(5)
    curve = ShapeCurve(power_min_w=LOW_W, power_max_w=HIGH_W, period_s=0.02, window_s=0.040, lag_s=0.015)
    stamp_s = 0.1
    while stamp_s < length_s:
        centre_s = stamp_s - lag_s
        curve.add(ns(stamp_s), load.mean(centre_s - window_s / 2, centre_s + window_s / 2))
        stamp_s += draw.choice([0.010, 0.020, 0.020, 0.020, 0.034]) + draw.uniform(-0.001, 0.001)
    lock = Lock(0.1)
    total = Unwrapped(range_j=None, power_max_w=HIGH_W)
    now_s = 0.0
    while now_s < length_s:
        now_s = max(now_s, lock.next_ns * 1e-9) + draw.uniform(0, 0.001)
        at_s = now_s + draw.uniform(0, 0.0036)
        moved = total.see(ns(at_s), counter.read(at_s))
        lock.rest(ns(now_s + rest_s))
        edge = lock.see(ns(now_s + 0.0018), half_ns=1_800_000, moved=moved)
        if edge is not None:
            curve.anchor(edge.time_ns, half_ns=edge.half_ns, energy_j=total.total_j)
        now_s += 0.0036
    return curve


def polled(load: Load, length_s: float, *, poll_s: float = 0.02, window_s: float = 0.0) -> IntegralCurve:
    """Power read once at random in each polling period."""
    draw = random.Random(9)
    curve = IntegralCurve(
        power_min_w=LOW_W, power_max_w=HIGH_W, period_s=0.0, window_s=window_s, polled_s=poll_s
    )
    for i in range(int((window_s + 0.1) / poll_s), int(length_s / poll_s)):
        at_s = (i + draw.random()) * poll_s
        power_w = (
            load.mean(at_s - window_s, at_s) if window_s else load.powers[bisect_right(load.times, at_s) - 1]
        )
        curve.add(ns(at_s), power_w)
    return curve


def windows(count: int, length_s: float, *, seed: int = 1) -> list[tuple[float, float]]:
    """Windows of 0.2 to 5 s that start anywhere."""
    draw = random.Random(seed)
    spans = [draw.uniform(0.2, 5.0) for _ in range(count)]
    return [(start, start + span) for span in spans for start in [draw.uniform(1.0, length_s - span - 3.0)]]


def spread(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000

    def wait_until(self, time_ns: int) -> None:
        self.now_ns = max(self.now_ns + 1000, time_ns)


class Bench(Device):
    """A device on a bench: a load, sensors as asked for, and a clock of its own."""

    uid = "gpu:bench"
    name = "bench"
    kind = "gpu"

    def __init__(
        self, load: Load, clock: Clock, *, traits: Traits, gain: float = 1.0, source: str = "counter"
    ) -> None:
        self.load, self.clock, self.traits, self.gain, self.source = load, clock, traits, gain, source
        self.counter = Counter(
            load, period_s=traits.counter_period_s or 0.1, range_j=traits.counter_range_j or math.inf
        )
        self.reads = 0
        self.broken = False
        self.stuck = False

    def energy(self) -> Reading:
        if self.broken:
            raise SensorError("the device has left")
        self.reads += 1
        value_j = 0.0 if self.stuck else self.counter.read(self.clock.now_ns * 1e-9) * self.gain
        return Reading(self.clock.now_ns, 10_000, value_j)

    def power_w(self) -> float:
        if self.broken:
            raise SensorError("the device has left")
        now_s, window_s = self.clock.now_ns * 1e-9, max(self.traits.power_window_s, 1e-6)
        return self.load.mean(now_s - window_s, now_s)

    def samples(self, after_ns: int) -> list[Sample]:
        traits = self.traits
        assert traits.buffer_period_s is not None
        period_ns, half_s = ns(traits.buffer_period_s), traits.buffer_window_s / 2
        first = max(after_ns // period_ns + 1, (self.clock.now_ns - ns(traits.buffer_depth_s)) // period_ns)
        return [
            Sample(
                k * period_ns,
                self.load.mean(
                    k * period_ns * 1e-9 - traits.buffer_lag_s - half_s,
                    k * period_ns * 1e-9 - traits.buffer_lag_s + half_s,
                ),
            )
            for k in range(max(first, 10), self.clock.now_ns // period_ns + 1)
        ]


def drive(channel: Channel, clock: Clock, until_s: float) -> None:
    """Let a channel read whenever it is due."""
    while clock.now_ns < until_s * 1e9:
        clock.wait_until(min(channel.due_ns, ns(until_s)))
        if channel.due_ns <= clock.now_ns:
            channel.work(clock.now_ns)
