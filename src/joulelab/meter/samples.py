# SPDX-License-Identifier: Apache-2.0
"""Power samples and the running integral of the broken line through them."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right


class Samples:
    """Parallel columns: time, power, joules so far, and two measures of how far those may have strayed.

    steady_j adds up, random_j2 is a variance that adds up; whoever appends says by how much.
    """

    def __init__(self) -> None:
        self.time_ns = array("q")
        self.power_w = array("d")
        self.energy_j = array("d")
        self.steady_j = array("d")
        self.random_j2 = array("d")
        self.gaps: list[tuple[int, int]] = []  # spans in which samples are missing

    def __len__(self) -> int:
        return len(self.time_ns)

    def append(self, time_ns: int, power_w: float, *, steady_j: float = 0.0, random_j2: float = 0.0) -> None:
        """A sample later than all others."""
        energy_j = 0.0
        if self.time_ns:
            span_s = (time_ns - self.time_ns[-1]) * 1e-9
            energy_j = self.energy_j[-1] + (power_w + self.power_w[-1]) / 2 * span_s
            steady_j += self.steady_j[-1]
            random_j2 += self.random_j2[-1]
        self.time_ns.append(time_ns)
        self.power_w.append(power_w)
        self.energy_j.append(energy_j)
        self.steady_j.append(steady_j)
        self.random_j2.append(random_j2)

    def at(self, time_ns: int) -> tuple[float, float, float]:
        """(joules, steady, random) at any instant; outside of the samples the first or last value holds."""
        right = bisect_right(self.time_ns, time_ns)
        if right == 0:
            gap_s = (time_ns - self.time_ns[0]) * 1e-9
            return self.energy_j[0] + self.power_w[0] * gap_s, self.steady_j[0], self.random_j2[0]
        left = right - 1
        since_s = (time_ns - self.time_ns[left]) * 1e-9
        if right == len(self.time_ns):
            return (
                self.energy_j[left] + self.power_w[left] * since_s,
                self.steady_j[left],
                self.random_j2[left],
            )
        span_s = (self.time_ns[right] - self.time_ns[left]) * 1e-9
        part = since_s / span_s
        power_w = self.power_w[left]
        energy_j = self.energy_j[left] + (power_w + (self.power_w[right] - power_w) * part / 2) * since_s
        steady_j = self.steady_j[left] + (self.steady_j[right] - self.steady_j[left]) * part
        random_j2 = self.random_j2[left] + (self.random_j2[right] - self.random_j2[left]) * part
        return energy_j, steady_j, random_j2

    def range_w(self, start_ns: int, end_ns: int) -> tuple[float, float]:
        """Least and greatest sample in a span, its two neighbours outside included."""
        left = max(0, bisect_left(self.time_ns, start_ns) - 1)
        near = self.power_w[left : bisect_right(self.time_ns, end_ns) + 1]
        return min(near), max(near)

    def gap_s(self, time_ns: int) -> float:
        """Length of the gap between samples around this instant; outside, the distance to the samples."""
        right = bisect_right(self.time_ns, time_ns)
        if right == 0:
            return (self.time_ns[0] - time_ns) * 1e-9
        if right == len(self.time_ns):
            return (time_ns - self.time_ns[-1]) * 1e-9
        return (self.time_ns[right] - self.time_ns[right - 1]) * 1e-9

    def missing_ns(self, start_ns: int, end_ns: int) -> int:
        """How much of a span lies in gaps."""
        return sum(max(0, min(b, end_ns) - max(a, start_ns)) for a, b in self.gaps)

    def prune(self, before_ns: int) -> None:
        self.gaps = [gap for gap in self.gaps if gap[1] >= before_ns]
        keep = bisect_right(self.time_ns, before_ns) - 2
        if keep > 256:
            for column in (self.time_ns, self.power_w, self.energy_j, self.steady_j, self.random_j2):
                del column[:keep]
