# SPDX-License-Identifier: Apache-2.0
"""The right channel for a device, and a counter held against power in its first seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from joulelab.meter.channel import (
    FAST_S,
    Channel,
    CounterChannel,
    EdgeChannel,
    FastChannel,
    PowerChannel,
    ShapeChannel,
)
from joulelab.meter.curve import Curve

if TYPE_CHECKING:
    from joulelab.hardware.device import Device

SHARE = 0.20
SOONEST_NS = 1_000_000_000
LATEST_NS = 3_000_000_000


def disagree(counter: Curve, power: Curve) -> bool:
    """Do the two differ by more than 20 % beyond both bounds, over at least a second?"""
    if counter.first_ns is None or power.first_ns is None:
        return False
    start_ns = max(counter.first_ns, power.first_ns)
    end_ns = min(counter.covered_ns, power.covered_ns)
    if end_ns - start_ns < SOONEST_NS:
        return False
    counter_j, counter_error_j = counter.between(counter.mark(start_ns), counter.mark(end_ns))
    power_j, power_error_j = power.between(power.mark(start_ns), power.mark(end_ns))
    return (
        abs(counter_j - power_j) > SHARE * max(abs(counter_j), abs(power_j)) + counter_error_j + power_error_j
    )


class CheckedChannel(Channel):
    """A counter channel with a power channel beside it, until one of them is chosen.

    Where they disagree, power is used: of the two, counters are what was found wrong in the field (half of
    the power at idle, constant inside a process, wrong until reboot), while a power reading is what the
    vendor's own tool shows.
    """

    def __init__(self, counter: CounterChannel, power: PowerChannel | None, *, tapped: bool) -> None:
        super().__init__(counter.device, counter.curve)
        self._counter = counter
        # None where power cannot judge: a sensor that looks at a part of the time sees a load in step with it
        # as constant, and wrong. It is still what is left when the counter is lost.
        self._power = power
        self._chosen: Channel = counter
        self._tapped = tapped  # power is fed by the counter channel's own buffer reads
        self._until_ns = 0

    def read(self, now_ns: int) -> None:
        if self._until_ns == 0:
            self._until_ns = now_ns + LATEST_NS
        if self._counter.due_ns <= now_ns and self._chosen is self._counter:
            self._counter.work(now_ns)
        if self._chosen is not self._counter:
            self._chosen.work(now_ns)
        elif self._power is not None:
            if not self._tapped and self._power.due_ns <= now_ns:
                self._power.work(now_ns)
            self._decide(now_ns)
        elif self._counter.lost:
            # Lost long after the choice: power is all that is left, if the device still answers at all.
            self._prefer(PowerChannel(self.device), f"{self._counter.lost}: using power")
        self._follow()

    def want(self, time_ns: int) -> None:
        self._chosen.want(time_ns)
        self._follow()

    def forget(self, now_ns: int) -> None:
        self._chosen.forget(now_ns)
        if self._power is not None:
            self._power.forget(now_ns)

    def _decide(self, now_ns: int) -> None:
        assert self._power is not None
        power = self._power
        if self._counter.lost:
            self._prefer(power, f"{self._counter.lost}: using power")
        elif disagree(self._counter.curve, power.curve):
            self._prefer(power, f"counter and power of {self.device.uid} disagree: using power")
        elif now_ns > self._until_ns and self._counter.curve.first_ns is not None:
            self._power = None  # they agree, or power cannot tell
        self._drop_tap()

    def _prefer(self, power: PowerChannel, why: str) -> None:
        self.note(why)
        self._chosen, self._power = power, None
        self.curve, self.source = power.curve, power.source

    def _drop_tap(self) -> None:
        if self._power is None and isinstance(self._counter, ShapeChannel):
            self._counter.tap = None

    def _follow(self) -> None:
        self.due_ns = 0 if self._chosen.lost else self._chosen.due_ns
        if self._power is not None and not self._tapped:
            self.due_ns = min(self.due_ns, self._power.due_ns)
        for flag in self._chosen.flags:
            self.note(flag)
        if self._chosen.lost and self._chosen is not self._counter:
            self.lose(self._chosen.lost)


def open_channel(device: Device) -> Channel:
    """The most exact channel that the device's sensors allow."""
    traits = device.traits
    has_power = traits.power_period_s is not None or traits.buffer_period_s is not None
    counter: CounterChannel
    if traits.counter_period_s is None:
        if has_power:
            return PowerChannel(device)
        channel = Channel(device, Curve(power_min_w=0.0, power_max_w=0.0))
        channel.lose(f"{device.uid} has no sensor of energy or power")
        return channel
    if traits.buffer_period_s is not None:
        shape = ShapeChannel(device)
        power = PowerChannel(device)
        shape.tap = power.integral.add
        return CheckedChannel(shape, power, tapped=True)
    counter = (
        EdgeChannel(device)
        if traits.counter_period_s >= FAST_S and device.source != "estimated"
        else FastChannel(device)
    )
    if traits.power_period_s is not None and device.source != "estimated":
        power = PowerChannel(device)
        return CheckedChannel(counter, None if power.blind else power, tapped=False)
    return counter
