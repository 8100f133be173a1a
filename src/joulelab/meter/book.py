# SPDX-License-Identifier: Apache-2.0
"""The windows that are open or wait for readings, and how each becomes a line of figures.

No input, no output.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from joulelab.meter.mark import Mark
from joulelab.meter.sums import DeviceEnergy, summed

if TYPE_CHECKING:
    from joulelab.meter.channel import Channel

# An instant that lies so long before all that a curve knows is not guessed at.
FORGOTTEN_NS = 2_000_000_000
# Who asks for a figure waits no longer than this for readings; then the last ones are carried on.
PATIENCE_NS = 130_000_000

Marks = list[Mark | None]
Figures = dict[str, object]


@dataclass(slots=True)
class Entry:
    """A window on its way: two instants, and a mark a device at each once the curves have passed."""

    start_ns: int
    end_ns: int | None = None
    labels: dict[str, object] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    starts: Marks | None = None
    ends: Marks | None = None
    generation: int = 0  # of the curves, when the start was marked
    waiters: list[Callable[[Figures], None]] = field(default_factory=list)


class Book:
    """Open windows, and instants that wait for their marks in the order of time."""

    def __init__(self, channels: Sequence[Channel], *, finished: Callable[[Entry, Figures], None]) -> None:
        self.channels = channels
        self._finished = finished
        self._points: list[tuple[int, int, Entry, bool]] = []
        self._order = itertools.count()
        self._generation = 0
        self._hurried: list[tuple[int, int]] = []  # (deadline, instant)

    @property
    def busy(self) -> bool:
        return bool(self._points)

    @property
    def deadline_ns(self) -> int | None:
        """When somebody's patience ends."""
        return self._hurried[0][0] if self._hurried else None

    def start(self, entry: Entry) -> None:
        heapq.heappush(self._points, (entry.start_ns, next(self._order), entry, True))

    def end(self, entry: Entry, end_ns: int) -> None:
        entry.end_ns = max(end_ns, entry.start_ns)
        heapq.heappush(self._points, (entry.end_ns, next(self._order), entry, False))

    def hurry(self, time_ns: int, now_ns: int) -> None:
        """Somebody waits for figures up to this instant."""
        heapq.heappush(self._hurried, (now_ns + PATIENCE_NS, time_ns))
        for channel in self.channels:
            if channel.covered_ns < time_ns:
                channel.want(time_ns)

    def settle(self, now_ns: int, *, force: bool = False) -> None:
        """Mark every instant that all curves have passed, or that nobody may wait for any longer."""
        reached_ns = min((channel.covered_ns for channel in self.channels), default=1 << 62)
        while self._hurried and self._hurried[0][0] <= now_ns:
            reached_ns = max(reached_ns, heapq.heappop(self._hurried)[1])
        if force:
            reached_ns = 1 << 62
        while self._points and self._points[0][0] <= reached_ns:
            time_ns, _, entry, is_start = heapq.heappop(self._points)
            if is_start:
                entry.starts, entry.generation = self._marks(time_ns), self._generation
            else:
                entry.ends = self._marks(time_ns)
                self._finish(entry)
        if not self._points:
            self._hurried.clear()

    def again(self) -> None:
        """A curve was exchanged for another: marks of the old one mean nothing."""
        self._generation += 1

    def _marks(self, time_ns: int) -> Marks:
        marks: Marks = []
        for channel in self.channels:
            first_ns = (
                channel.curve.first_ns if not channel.lost or channel.curve.covered_ns >= time_ns else None
            )
            known = first_ns is not None and first_ns - time_ns < FORGOTTEN_NS
            marks.append(channel.curve.mark(time_ns) if known else None)
        return marks

    def _finish(self, entry: Entry) -> None:
        assert entry.end_ns is not None
        starts = entry.starts
        if starts is None or entry.generation != self._generation:
            starts = self._marks(entry.start_ns)
        ends = entry.ends or []
        devices = [
            device_energy(channel, start, end)
            for channel, start, end in zip(self.channels, starts, ends, strict=True)
        ]
        figures = summed(devices, time_s=(entry.end_ns - entry.start_ns) * 1e-9, flags=entry.flags)
        self._finished(entry, figures)
        for waiter in entry.waiters:
            waiter(figures)


def device_energy(channel: Channel, start: Mark | None, end: Mark | None) -> DeviceEnergy:
    """One device between two marks; with the reason where it cannot be said."""
    device = channel.device
    energy_j: float | None = None
    error_j = 0.0
    flags = list(channel.flags)
    if start is not None and end is not None:
        energy_j, error_j = channel.curve.between(start, end)
        if channel.source == "estimated":
            # No two devices share this error and nothing calibrates it, so it belongs to every figure.
            error_j += device.traits.gain_error * abs(energy_j)
    elif channel.lost:
        flags.append(f"lost: {device.uid}: {channel.lost}")
    else:
        flags.append(f"{device.uid}: before the meter began, or longer ago than it remembers")
    return DeviceEnergy(
        uid=device.uid,
        source=channel.source,
        energy_j=energy_j,
        error_j=error_j,
        resolution_s=channel.curve.resolution_s,
        part_of=device.part_of,
        simulated=device.simulated,
        flags=tuple(flags),
    )
