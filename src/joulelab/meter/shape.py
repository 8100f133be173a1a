# SPDX-License-Identifier: Apache-2.0
"""A counter gives the area, the device's own sample buffer gives the shape in between."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from joulelab.meter.curve import Curve
from joulelab.meter.edges import QUANTUM_J
from joulelab.meter.mark import Drift, Mark
from joulelab.meter.samples import Samples

# Samples and counter disagree by this share of the energy from one level of power to another ...
LEVEL_SHARE = 0.005
# ... and, where samples beat with the load, by this share of the load's swing (seen: 1.3 %).
BEAT_SHARE = 0.015
# A sample's lag is known to about a third of itself (seen: 10 to 20 ms) where nobody has looked.
LAG_SHARE = 1 / 3
NEAR = 16  # samples that tell how much the load swings at present
SIGMAS2 = 16.0  # four standard deviations, squared


class ShapeCurve(Curve):
    """Anchors are edges of the counter; between two, the samples' integral is scaled to their difference."""

    def __init__(
        self,
        *,
        power_min_w: float,
        power_max_w: float,
        period_s: float,
        window_s: float,
        lag_s: float,
        lag_error_s: float | None = None,
    ) -> None:
        super().__init__(power_min_w=power_min_w, power_max_w=power_max_w)
        self.resolution_s = max(period_s, window_s)
        self._window_s = window_s
        self._lag_ns = int(lag_s * 1e9)
        self._lag_error_s = LAG_SHARE * lag_s if lag_error_s is None else lag_error_s
        self._samples = Samples()
        self._time = array("q")
        self._half = array("q")
        self._energy = array("d")
        self._doubt = array("d")  # joules that breaks of the counter may hide, up to each anchor
        # Where so much of the buffer is missing (it was not read in time, the clock that stamps it was set),
        # nothing is known of the shape.
        self._gap_s = max(8 * period_s, 0.1)
        self._bends_w2 = 0.0  # mean square of the samples' second differences

    @property
    def first_ns(self) -> int | None:
        return self._samples.time_ns[0] if self._usable() >= 0 else None

    @property
    def covered_ns(self) -> int:
        usable = self._usable()
        return self._time[usable] if usable >= 0 else 0

    @property
    def sampled_ns(self) -> int:
        """The samples alone reach this far."""
        return self._samples.time_ns[-1] if len(self._samples) else 0

    @property
    def anchored_ns(self) -> int:
        """The anchors alone reach this far."""
        return self._time[-1] if self._time else 0

    def add(self, time_ns: int, power_w: float) -> None:
        """A sample of the buffer, with the time stamp that the device gave it."""
        samples = self._samples
        time_ns -= self._lag_ns
        if not len(samples):
            samples.append(time_ns, power_w)
            return
        span_s = (time_ns - samples.time_ns[-1]) * 1e-9
        if span_s <= 0:
            return
        near = samples.power_w[-NEAR:]
        if span_s > self._gap_s:
            samples.gaps.append((samples.time_ns[-1], time_ns))
            samples.append(time_ns, power_w, steady_j=(self.high_w - self.low_w) * span_s)
            return
        swing_w = max(*near, power_w) - min(*near, power_w)
        steady_j = (LEVEL_SHARE * abs(power_w) + BEAT_SHARE * swing_w) * span_s
        # Where the power bends by b between two samples, the straight line misses up to b * span / 8; the
        # bends seen of late say how large they are. Without a window samples may skip anything, so steps
        # count in full.
        before_w = samples.power_w[-2] if len(samples) > 1 else samples.power_w[-1]
        bend_w = power_w - 2 * samples.power_w[-1] + before_w if self._window_s else 4 * swing_w
        self._bends_w2 += (bend_w * bend_w - self._bends_w2) / min(len(samples), NEAR)
        random_j2 = SIGMAS2 * self._bends_w2 * (span_s / 8) ** 2
        samples.append(time_ns, power_w, steady_j=steady_j, random_j2=random_j2)

    def anchor(self, time_ns: int, *, half_ns: int, energy_j: float, broken: bool = False) -> None:
        """The counter stood at `energy_j` at `time_ns` give or take `half_ns`.

        After a break the step from the anchor before is worth nothing.
        """
        doubt_j = self._doubt[-1] if self._doubt else 0.0
        if self._time:
            span_ns = time_ns - self._time[-1]
            if span_ns <= 0:
                return
            if broken:
                doubt_j += self.high_w * span_ns * 1e-9
            else:
                self.saw((energy_j - self._energy[-1]) / span_ns * 1e9)
        self._time.append(time_ns)
        self._half.append(half_ns)
        self._energy.append(energy_j)
        self._doubt.append(doubt_j)

    def mark(self, time_ns: int) -> Mark:
        if not self._time or not len(self._samples):
            return Mark(time_ns, 0.0, float("inf"))
        right = bisect_right(self._time, time_ns)
        last = max(0, self._usable())
        right = min(right, last + 1)
        if right > last and time_ns == self._time[last] and last > 0:
            right = last
        shape_j, steady_j, random_j2 = self._samples.at(time_ns)
        # Outside of the anchors the nearest interval's scale goes on, and only one side is held.
        start, end = (right - 1, right) if 0 < right <= last else (min(right, last), min(right, last))
        scale, base = self._scale(min(max(right - 1, 0), max(last - 1, 0))), max(right - 1, 0)
        anchor_j, anchor_steady_j, anchor_random_j2 = self._samples.at(self._time[base])
        energy_j = self._energy[base] + scale * (shape_j - anchor_j)
        doubt_j = self._doubt[base]
        left_drift = Drift(anchor_steady_j, anchor_random_j2) if right > 0 else None
        right_drift = None
        if right <= last:
            _, steady, random = self._samples.at(self._time[right])
            right_drift = Drift(steady, random)
            if right > base:
                energy_j += self._missed(time_ns, base, right)
                doubt_j += (self._doubt[right] - doubt_j) * self._part(time_ns, base, right)
        error_j = self._local(time_ns, start, end) + QUANTUM_J
        drift = Drift(steady_j, random_j2)
        return Mark(time_ns, energy_j, error_j, right, drift, left_drift, right_drift, doubt_j)

    def unscaled(self, start_ns: int, end_ns: int) -> float:
        """What the samples alone say, to be compared with the counter."""
        return self._samples.at(end_ns)[0] - self._samples.at(start_ns)[0]

    def prune(self, before_ns: int) -> None:
        self._samples.prune(before_ns)
        keep = bisect_right(self._time, before_ns) - 1
        if keep > 64:
            del self._time[:keep], self._half[:keep], self._energy[:keep], self._doubt[:keep]

    def _usable(self) -> int:
        """The last anchor that the samples have reached: before that, the area up to it has no shape."""
        return bisect_right(self._time, self._samples.time_ns[-1]) - 1 if len(self._samples) else -1

    def _scale(self, left: int) -> float:
        if left + 1 > self._usable() or self._samples.missing_ns(self._time[left], self._time[left + 1]):
            return 1.0
        shape_j = self._samples.at(self._time[left + 1])[0] - self._samples.at(self._time[left])[0]
        return (self._energy[left + 1] - self._energy[left]) / shape_j if shape_j > 0 else 1.0

    def _missed(self, time_ns: int, left: int, right: int) -> float:
        """What the counter has and the samples have not, where samples are missing: it belongs there."""
        start_ns, end_ns = self._time[left], self._time[right]
        gaps_ns = self._samples.missing_ns(start_ns, end_ns)
        if not gaps_ns:
            return 0.0
        lacking_j = self._energy[right] - self._energy[left] - self.unscaled(start_ns, end_ns)
        return lacking_j * self._samples.missing_ns(start_ns, time_ns) / gaps_ns

    def _part(self, time_ns: int, left: int, right: int) -> float:
        return min(1.0, max(0.0, (time_ns - self._time[left]) / (self._time[right] - self._time[left])))

    def _local(self, time_ns: int, start: int, end: int) -> float:
        """What is uncertain at this instant, whatever the anchors say."""
        gap_s = self._samples.gap_s(time_ns)
        near_ns = int(max(self._window_s, gap_s, 1e-3) * 1e9)
        least_w, most_w = self._samples.range_w(time_ns - near_ns, time_ns + near_ns)
        error_j = self.smear(self._window_s, least_w, most_w) + self._line(time_ns, gap_s)
        # A lag that is wrong shifts the shape; anchors do not move, so the difference in power counts.
        lows, highs = [least_w], [most_w]
        for anchor in (start, end):
            at_ns = self._time[anchor]
            low_w, high_w = self._samples.range_w(at_ns - near_ns, at_ns + near_ns)
            lows.append(low_w)
            highs.append(high_w)
        error_j += self._lag_error_s * (max(highs) - min(lows))
        # The anchors' own times: as much as the device drew while the edge may have come earlier or later.
        part = 0.5
        if end > start:
            part = min(1.0, max(0.0, (time_ns - self._time[start]) / (self._time[end] - self._time[start])))
        half_ns = (1 - part) * self._half[start] + part * self._half[end]
        return error_j + half_ns * 1e-9 * min(self.high_w, 1.25 * max(highs))

    def _line(self, time_ns: int, gap_s: float) -> float:
        """What a straight line between two samples may miss, by the swing seen around it."""
        times = self._samples.time_ns
        if time_ns < times[0] or time_ns > times[-1]:
            edge_w = self._samples.power_w[0 if time_ns < times[0] else -1]
            return gap_s * self.reach(edge_w)
        reach_ns = int(NEAR / 2 * gap_s * 1e9)
        low_w, high_w = self._samples.range_w(time_ns - reach_ns, time_ns + reach_ns)
        swing_w = min(2 * (high_w - low_w), self.high_w - self.low_w)
        return swing_w * gap_s * min(0.5, gap_s / (4 * self._window_s) if self._window_s else 0.5)
