# SPDX-License-Identifier: Apache-2.0
"""A counter known at the instants when it moved, and a straight line in between."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from joulelab.meter.curve import Curve
from joulelab.meter.mark import Mark

# A counter counts in steps (1 mJ for NVML, 61 uJ for RAPL); two ends can be wrong by one each.
QUANTUM_J = 0.001


class EdgeCurve(Curve):
    """Knots (time, half width of the time's uncertainty, joules)."""

    def __init__(self, *, power_min_w: float, power_max_w: float, resolution_s: float) -> None:
        super().__init__(power_min_w=power_min_w, power_max_w=power_max_w)
        self.resolution_s = resolution_s
        self._time = array("q")
        self._half = array("q")
        self._energy = array("d")
        self._doubt = array("d")  # joules that breaks may hide, up to each knot
        self._mean_w: float | None = None

    def __len__(self) -> int:
        return len(self._time)

    @property
    def first_ns(self) -> int | None:
        return self._time[0] if self._time else None

    @property
    def covered_ns(self) -> int:
        return self._time[-1] if self._time else 0

    def add(self, time_ns: int, *, half_ns: int, energy_j: float, broken: bool = False) -> None:
        """A knot: the counter stood at `energy_j` at `time_ns` give or take `half_ns`.

        Times must increase. After a break the step from the knot before is worth nothing.
        """
        doubt_j = self._doubt[-1] if self._doubt else 0.0
        if self._time:
            span_ns = time_ns - self._time[-1]
            if span_ns <= 0:
                return
            blur_ns = half_ns + self._half[-1]
            if broken:
                doubt_j += self.high_w * (span_ns + blur_ns) * 1e-9
            else:
                self._mean_w = (energy_j - self._energy[-1]) / span_ns * 1e9
                # The mean is known only as well as its two times: widen by what surely lies outside of the
                # range.
                self.high_w = max(self.high_w, self._mean_w * span_ns / (span_ns + blur_ns))
                if blur_ns < span_ns:
                    self.low_w = min(self.low_w, self._mean_w * span_ns / (span_ns - blur_ns))
        self._time.append(time_ns)
        self._half.append(half_ns)
        self._energy.append(energy_j)
        self._doubt.append(doubt_j)

    def mark(self, time_ns: int) -> Mark:
        if not self._time:
            return Mark(time_ns, 0.0, float("inf"))
        right = bisect_right(self._time, time_ns)
        if right == len(self._time):
            if self._time[-1] < time_ns or right < 2:
                return self._beyond(time_ns, right - 1)
            right -= 1
        if right == 0:
            return self._beyond(time_ns, 0)
        left = right - 1
        start_ns, end_ns = self._time[left], self._time[right]
        low_j, high_j = self._energy[left], self._energy[right]
        part = (time_ns - start_ns) / (end_ns - start_ns)
        energy_j = low_j + (high_j - low_j) * part
        doubt_j = self._doubt[left] + (self._doubt[right] - self._doubt[left]) * part
        # The true curve passes both knots, somewhere within their half widths, and is nowhere steeper than
        # high_w nor flatter than low_w. That leaves a lens; the bound is its larger half at this instant.
        top_j = min(
            low_j + self.high_w * (time_ns - start_ns + self._half[left]) * 1e-9,
            high_j - self._least(end_ns - self._half[right] - time_ns),
        )
        bottom_j = max(
            low_j + self._least(time_ns - start_ns - self._half[left]),
            high_j - self.high_w * (end_ns + self._half[right] - time_ns) * 1e-9,
        )
        error_j = max(top_j - energy_j, energy_j - bottom_j, 0.0) + QUANTUM_J
        return Mark(time_ns, energy_j, error_j, doubt_j=doubt_j)

    def prune(self, before_ns: int) -> None:
        keep = bisect_right(self._time, before_ns) - 1
        if keep > 256:
            del self._time[:keep], self._half[:keep], self._energy[:keep], self._doubt[:keep]

    def _least(self, span_ns: int) -> float:
        """The least that can be drawn in a span; a negative span is one by which the knot may be late."""
        return (self.low_w if span_ns >= 0 else self.high_w) * span_ns * 1e-9

    def _beyond(self, time_ns: int, knot: int) -> Mark:
        """Outside the knots: straight on, with everything that the device could do instead in the bound."""
        mean_w = self._mean_w
        if mean_w is None:
            mean_w = (self.low_w + self.high_w) / 2
        elif knot == 0 and len(self._time) > 1:
            mean_w = (self._energy[1] - self._energy[0]) / (self._time[1] - self._time[0]) * 1e9
        gap_s = (time_ns - self._time[knot]) * 1e-9
        error_j = abs(gap_s) * self.reach(mean_w) + self._half[knot] * 1e-9 * self.high_w + QUANTUM_J
        return Mark(time_ns, self._energy[knot] + mean_w * gap_s, error_j, doubt_j=self._doubt[knot])
