# SPDX-License-Identifier: Apache-2.0
"""Cumulative energy of one device as a function of time, built up reading by reading. No input, no output."""

from __future__ import annotations

from joulelab.meter.mark import Mark, between

HORIZON_NS = 120_000_000_000


class Curve:
    """Base of the three kinds: held by a counter's edges, by a counter and samples, or by samples alone."""

    resolution_s = 0.0

    def __init__(self, *, power_min_w: float, power_max_w: float) -> None:
        self.low_w = power_min_w
        self.high_w = power_max_w

    @property
    def first_ns(self) -> int | None:
        """The first instant that the curve knows; None before the first reading."""
        raise AssertionError("a curve says where it starts")

    @property
    def covered_ns(self) -> int:
        """Up to here a mark is final; beyond, it is an extrapolation whose bound grows with time."""
        raise AssertionError("a curve says how far it reaches")

    def mark(self, time_ns: int) -> Mark:
        """Energy and bound at any instant."""
        raise AssertionError("a curve can be read")

    def prune(self, before_ns: int) -> None:
        """Forget what is older, but for what an instant at `before_ns` still needs."""

    def between(self, start: Mark, end: Mark) -> tuple[float, float]:
        """Energy and bound between two marks of this curve."""
        return between(start, end, power_min_w=self.low_w, power_max_w=self.high_w)

    def saw(self, power_w: float) -> None:
        """Widen the physical range where a mean power lies outside of it: the range given was wrong."""
        self.low_w = min(self.low_w, power_w)
        self.high_w = max(self.high_w, power_w)

    def reach(self, power_w: float) -> float:
        """The furthest that the true power can be from `power_w`."""
        return max(power_w - self.low_w, self.high_w - power_w)

    def smear(self, window_s: float, least_w: float, most_w: float) -> float:
        """Energy that a mean over a window may carry across one instant.

        With a mean that is the share f of the range, the worst case moves window * range * f (1 - f) / 2.
        """
        range_w = self.high_w - self.low_w
        if range_w <= 0:
            return 0.0
        low, high = (min(1.0, max(0.0, (power_w - self.low_w) / range_w)) for power_w in (least_w, most_w))
        share = min(max(0.5, low), high)
        return window_s * range_w * share * (1 - share) / 2
