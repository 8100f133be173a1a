# SPDX-License-Identifier: Apache-2.0
"""One device as the sampler sees it: what to read when, and the curve that comes of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from joulelab.errors import SensorError
from joulelab.meter.counter import Unwrapped
from joulelab.meter.curve import HORIZON_NS, Curve
from joulelab.meter.edges import EdgeCurve
from joulelab.meter.integral import IntegralCurve
from joulelab.meter.lock import Lock
from joulelab.meter.shape import ShapeCurve

if TYPE_CHECKING:
    from joulelab.hardware.device import Device

FOREVER_NS = 1 << 62
# A counter that moves this often is read plainly; there is no edge worth looking for.
FAST_S = 0.005
FAST_READS_NS = 50_000_000
ESTIMATE_READS_NS = 100_000_000
POLL_S = 0.02
STILL_NS = 3_000_000_000  # a counter that has not moved for so long is out of order
# So many reads for one anchor of a shape, then a rest: an anchor is not urgent while nobody waits for it.
TRIES_AN_ANCHOR = 8
BACK_OFF_NS = 4_000_000_000
# Drivers fail now and then for a moment; a device that fails so often in a row is lost.
TRIES = 3
AGAIN_NS = 100_000_000


class Channel:
    """Base: a device without a sensor. It is never due, and lost from the beginning."""

    def __init__(self, device: Device, curve: Curve) -> None:
        self.device = device
        self.curve = curve
        self.source = device.source
        self.flags: list[str] = []
        self.lost = ""  # why the device can no longer be read
        self.due_ns = 0
        self._failures = 0  # in a row

    @property
    def covered_ns(self) -> int:
        """No instant up to here waits for this device."""
        return FOREVER_NS if self.lost else self.curve.covered_ns

    @property
    def ready(self) -> bool:
        return bool(self.lost) or self.curve.first_ns is not None

    def work(self, now_ns: int) -> None:
        """Read what is due."""
        try:
            self.read(now_ns)
            self._failures = 0
        except Exception as error:  # noqa: BLE001 - vendor libraries raise anything; the other devices go on
            self._failures += 1
            self.due_ns = now_ns + AGAIN_NS
            if self._failures == TRIES:
                self.lose(str(error).partition("\n")[0] or type(error).__name__)

    def read(self, now_ns: int) -> None:
        raise SensorError("no sensor of this device gives energy or power")

    def want(self, time_ns: int) -> None:
        """Somebody waits for this instant: read what is missing soon."""

    def lose(self, why: str) -> None:
        self.lost = why
        self.due_ns = FOREVER_NS

    def note(self, flag: str) -> None:
        if flag not in self.flags:
            self.flags.append(flag)

    def forget(self, now_ns: int) -> None:
        self.curve.prune(now_ns - HORIZON_NS)


class CounterChannel(Channel):
    """What the three kinds that read a counter share."""

    def __init__(self, device: Device, curve: Curve) -> None:
        super().__init__(device, curve)
        self._total = Unwrapped(range_j=device.traits.counter_range_j, power_max_w=device.traits.power_max_w)
        self._moved_ns = 0
        self._cost_s = 0.0
        self._broken = False  # since the last knot or anchor

    def see(self) -> tuple[int, int, bool]:
        """Read the counter: (time, half width, did it move)."""
        reading = self.device.energy()
        moved = self._total.see(reading.time_ns, reading.energy_j)
        self._cost_s += (2e-9 * reading.half_width_ns - self._cost_s) / 8
        if moved or not self._moved_ns:
            self._moved_ns = reading.time_ns
        self._broken |= self._total.broken
        if self._total.jumps:
            self.note(f"the counter of {self.device.uid} jumped: what it leapt over is not counted")
        if self._total.unsure:
            self.note(f"the counter of {self.device.uid} was read too late: it may have wrapped unseen")
        return reading.time_ns, reading.half_width_ns, moved


class EdgeChannel(CounterChannel):
    """A slow counter and nothing else: lock on to its edges."""

    def __init__(self, device: Device) -> None:
        traits = device.traits
        assert traits.counter_period_s is not None
        curve = EdgeCurve(
            power_min_w=traits.power_min_w,
            power_max_w=traits.power_max_w,
            resolution_s=traits.counter_period_s,
        )
        super().__init__(device, curve)
        self.edges = curve
        self._lock = Lock(traits.counter_period_s)

    def read(self, now_ns: int) -> None:
        del now_ns
        time_ns, half_ns, moved = self.see()
        edge = self._lock.see(time_ns, half_ns=half_ns, moved=moved)
        if edge is not None:
            self.edges.add(
                edge.time_ns, half_ns=edge.half_ns, energy_j=self._total.total_j, broken=self._broken
            )
            self._broken = False
        self.due_ns = self._lock.next_ns
        if time_ns - self._moved_ns > STILL_NS:
            self.lose(f"the counter of {self.device.uid} stands still")


class FastChannel(CounterChannel):
    """A counter that moves every millisecond or so: plain reads, not more than 20 a second."""

    def __init__(self, device: Device) -> None:
        traits = device.traits
        assert traits.counter_period_s is not None
        self._every_ns = ESTIMATE_READS_NS if device.source == "estimated" else FAST_READS_NS
        curve = EdgeCurve(
            power_min_w=traits.power_min_w, power_max_w=traits.power_max_w, resolution_s=self._every_ns * 1e-9
        )
        super().__init__(device, curve)
        self.edges = curve
        self._period_ns = int(traits.counter_period_s * 1e9)

    def read(self, now_ns: int) -> None:
        time_ns, half_ns, moved = self.see()
        self.due_ns = now_ns + self._every_ns
        if not moved and len(self.edges) and self.source != "estimated":
            # A counter that should have moved fifty times says nothing about this instant.
            if time_ns - self._moved_ns > STILL_NS:
                self.lose(f"the counter of {self.device.uid} stands still")
            return
        # The value is as old as the counter's last move: half a period on average.
        half_period_ns = self._period_ns // 2
        self.edges.add(
            time_ns - half_period_ns,
            half_ns=half_ns + half_period_ns,
            energy_j=self._total.total_j,
            broken=self._broken,
        )
        self._broken = False

    def want(self, time_ns: int) -> None:
        if self.covered_ns < time_ns:
            self.due_ns = min(self.due_ns, time_ns + self._period_ns + 100_000)


class ShapeChannel(CounterChannel):
    """A counter with a sample buffer: few edges as anchors, samples in bulk."""

    def __init__(self, device: Device) -> None:
        traits = device.traits
        assert traits.counter_period_s is not None
        assert traits.buffer_period_s is not None
        curve = ShapeCurve(
            power_min_w=traits.power_min_w,
            power_max_w=traits.power_max_w,
            period_s=traits.buffer_period_s,
            window_s=traits.buffer_window_s,
            lag_s=traits.buffer_lag_s,
            lag_error_s=traits.buffer_lag_error_s,
        )
        super().__init__(device, curve)
        self.shape = curve
        self.tap: Callable[[int, float], None] | None = None
        self._lock = Lock(traits.counter_period_s)
        self._tries = 0  # reads since the last anchor
        self._stamp_ns = 0
        self._sample_ns = int(traits.buffer_period_s * 1e9)
        self._late_ns = int((traits.buffer_lag_s + traits.buffer_window_s / 2) * 1e9)
        self._every_ns = int(min(1.0, traits.buffer_depth_s / 2 or 1.0) * 1e9)
        self._buffer_due_ns = 0
        self._wanted_ns = 0

    def read(self, now_ns: int) -> None:
        if self._buffer_due_ns <= now_ns:
            for sample in self.device.samples(self._stamp_ns):
                self._stamp_ns = sample.time_ns
                self.shape.add(sample.time_ns, sample.power_w)
                if self.tap is not None:
                    self.tap(sample.time_ns, sample.power_w)
            missing = self.covered_ns < max(1, self._wanted_ns) <= self.shape.anchored_ns
            self._buffer_due_ns = now_ns + (self._sample_ns if missing else self._every_ns)
        if self._lock.next_ns <= now_ns:
            self._read_counter()
        self.due_ns = min(self._buffer_due_ns, self._lock.next_ns)

    def _read_counter(self) -> None:
        if self.shape.anchored_ns >= self._wanted_ns:
            # Two and a half reads an anchor shall cost less than 0.4 % of a core.
            self._lock.rest(self._moved_ns + int(min(2.0, max(0.3, 600 * self._cost_s)) * 1e9))
        time_ns, half_ns, moved = self.see()
        edge = self._lock.see(time_ns, half_ns=half_ns, moved=moved)
        self._tries += 1
        if edge is None and self._tries >= TRIES_AN_ANCHOR and self.shape.anchored_ns >= self._wanted_ns:
            # On a busy machine reads come too late to enclose an edge; trying on would only make it busier.
            self._tries = 0
            self._lock.next_ns = time_ns + BACK_OFF_NS
        if edge is not None:
            self._tries = 0
            self.shape.anchor(
                edge.time_ns, half_ns=edge.half_ns, energy_j=self._total.total_j, broken=self._broken
            )
            self._broken = False
            if edge.time_ns >= max(1, self._wanted_ns) > self.covered_ns:
                # An anchor is of use when the samples have reached it.
                self._buffer_due_ns = min(self._buffer_due_ns, edge.time_ns + self._late_ns)
        if time_ns - self._moved_ns > STILL_NS + BACK_OFF_NS:
            self.lose(f"the counter of {self.device.uid} stands still")

    def want(self, time_ns: int) -> None:
        self._wanted_ns = max(self._wanted_ns, time_ns)
        if self.shape.anchored_ns < time_ns:
            self._lock.wake(time_ns)
        if self.shape.sampled_ns < time_ns:
            # Even without an anchor in time, the samples must have passed this instant.
            self._buffer_due_ns = min(self._buffer_due_ns, time_ns + self._late_ns + 2 * self._sample_ns)
        self.due_ns = min(self._buffer_due_ns, self._lock.next_ns)


class PowerChannel(Channel):
    """Power alone, integrated: from the buffer where there is one, else polled at random in each period."""

    def __init__(self, device: Device) -> None:
        traits = device.traits
        self._buffered = traits.buffer_period_s is not None
        period_s = traits.power_period_s or 0.0
        poll_s = min(0.25, max(POLL_S, period_s / 2))
        window_s = traits.buffer_window_s if self._buffered else traits.power_window_s
        curve = IntegralCurve(
            power_min_w=traits.power_min_w,
            power_max_w=traits.power_max_w,
            period_s=0.0 if self._buffered else period_s,
            window_s=window_s,
            polled_s=traits.buffer_period_s or poll_s,
            shift_s=traits.buffer_lag_s if self._buffered else None,
        )
        super().__init__(device, curve)
        self.source = "estimated" if device.source == "estimated" else "integrated"
        self.integral = curve
        self._poll_ns = int(1e9 if self._buffered else poll_s * 1e9)
        self._stamp_ns = 0
        self._slot_ns = 0
        self._wanted_ns = 0
        self.blind = not self._buffered and 0 < window_s < period_s / 2
        if self.blind:
            seen = 100 * window_s / period_s
            blind = "loads in step with it are misread"
            self.note(f"the power sensor of {device.uid} sees {seen:.0f}% of the time: {blind}")

    def read(self, now_ns: int) -> None:
        if self._buffered:
            for sample in self.device.samples(self._stamp_ns):
                self._stamp_ns = sample.time_ns
                self.integral.add(sample.time_ns, sample.power_w)
        else:
            self.integral.add(now_ns, self.device.power_w())
        if self._buffered and self.integral.covered_ns < self._wanted_ns:
            self.due_ns = now_ns + 20_000_000
            return
        self._slot_ns = max(self._slot_ns + self._poll_ns, now_ns - now_ns % self._poll_ns)
        # Nothing secret depends on it: the instants must only be out of step with any load.
        self.due_ns = self._slot_ns + int(random.random() * self._poll_ns)
        if self.due_ns <= now_ns:
            self._slot_ns += self._poll_ns
            self.due_ns += self._poll_ns

    def want(self, time_ns: int) -> None:
        self._wanted_ns = max(self._wanted_ns, time_ns)
        if self.covered_ns < time_ns:
            self.due_ns = min(self.due_ns, time_ns + 30_000_000)
