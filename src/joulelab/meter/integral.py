# SPDX-License-Identifier: Apache-2.0
"""No counter: power samples, integrated."""

from __future__ import annotations

from collections import deque

from joulelab.meter.curve import Curve
from joulelab.meter.edges import QUANTUM_J
from joulelab.meter.mark import Drift, Mark
from joulelab.meter.samples import Samples

NEAR = 64  # samples that tell how much the power scatters
LONG = 1024  # and those that tell of what comes seldom
FEW = 8  # fewer than these tell nothing: the device's whole range is assumed
SIGMAS2 = 25.0  # five standard deviations, squared: of 10,000 windows none shall lie outside


class IntegralCurve(Curve):
    """A broken line through all samples, moved back by half of what each one averages over.

    The samples' instants must be random within each polling period: then no load can beat with them, and the
    error of n of them is a random walk of n steps, each the scatter of the power times the time that a sample
    stands for.
    """

    def __init__(
        self,
        *,
        power_min_w: float,
        power_max_w: float,
        period_s: float,
        window_s: float,
        polled_s: float,
        shift_s: float | None = None,
    ) -> None:
        super().__init__(power_min_w=power_min_w, power_max_w=power_max_w)
        self.resolution_s = max(polled_s, window_s, period_s)
        self._window_s = window_s
        self._period_s = period_s
        # A value that is renewed once a period is half a period old on average, and speaks of its window's
        # middle.
        self._shift_ns = int(((window_s + period_s) / 2 if shift_s is None else shift_s) * 1e9)
        self._samples = Samples()
        self._steps: deque[float] = deque(maxlen=NEAR)  # squared differences of neighbours
        self._steps_sum = 0.0
        self._seldom_w2 = 0.0  # mean of the squared differences over a long time
        self._added = 0
        # Polls come late on a busy machine; where they fail to come, nothing is known of the power.
        self._gap_s = max(4 * polled_s, window_s, 0.3)

    @property
    def first_ns(self) -> int | None:
        return self._samples.time_ns[0] if len(self._samples) else None

    @property
    def covered_ns(self) -> int:
        return self._samples.time_ns[-1] if len(self._samples) else 0

    def add(self, time_ns: int, power_w: float) -> None:
        """A sample and the instant at which it was read."""
        samples = self._samples
        time_ns -= self._shift_ns
        self.saw(power_w)
        if not len(samples):
            samples.append(time_ns, power_w)
            return
        span_s = (time_ns - samples.time_ns[-1]) * 1e-9
        if span_s <= 0:
            return
        if span_s > self._gap_s:
            before_w = samples.power_w[-1]
            reach_w = max(self.high_w - min(before_w, power_w), max(before_w, power_w) - self.low_w)
            samples.append(time_ns, power_w, steady_j=reach_w * span_s)
            return
        step_w2 = (power_w - samples.power_w[-1]) ** 2
        self._added += 1
        self._seldom_w2 += (step_w2 - self._seldom_w2) / min(self._added, LONG)
        if len(self._steps) == NEAR:
            self._steps_sum -= self._steps[0]
        self._steps.append(step_w2)
        self._steps_sum = max(0.0, self._steps_sum + step_w2)
        # Half the mean square of the differences is the variance that neighbours do not share (von Neumann).
        # Spikes that none of the last samples met are still there.
        variance_w2 = max(self._steps_sum / len(self._steps), self._seldom_w2) / 2
        if len(self._steps) < FEW:
            variance_w2 = max(variance_w2, ((self.high_w - self.low_w) / 4) ** 2)
        # A mean that covers all time up to the next one leaves little to chance between the two; that of one
        # update of the field is read once or twice or not at all.
        unseen = 0.25 if self._window_s >= max(span_s, 2 * self._period_s) else 1.0
        samples.append(time_ns, power_w, random_j2=SIGMAS2 * unseen * variance_w2 * span_s * span_s)

    def mark(self, time_ns: int) -> Mark:
        samples = self._samples
        if not len(samples):
            return Mark(time_ns, 0.0, float("inf"))
        energy_j, steady_j, random_j2 = samples.at(time_ns)
        return Mark(time_ns, energy_j, self._local(time_ns), 0, Drift(steady_j, random_j2))

    def prune(self, before_ns: int) -> None:
        self._samples.prune(before_ns)

    def _local(self, time_ns: int) -> float:
        samples = self._samples
        gap_s = samples.gap_s(time_ns)
        if time_ns < samples.time_ns[0] or time_ns > samples.time_ns[-1]:
            outside = gap_s * self.reach(samples.power_w[0 if time_ns < samples.time_ns[0] else -1])
        else:
            outside = 0.0
        near_ns = int(NEAR / 2 * max(gap_s, 1e-3) * 1e9)
        low_w, high_w = samples.range_w(time_ns - near_ns, time_ns + near_ns)
        swing_w = high_w - low_w if len(samples) >= FEW else self.high_w - self.low_w
        # Between two updates nothing is known but their means: that smears as much again.
        smear_j = self.smear(self._window_s + (self._period_s if self._window_s else 0.0), low_w, high_w)
        return QUANTUM_J + outside + smear_j + swing_w * (gap_s / 2 + self._period_s / 2)
