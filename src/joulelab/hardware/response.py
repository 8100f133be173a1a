# SPDX-License-Identifier: Apache-2.0
"""How a buffer's samples follow the power: lag and memory, fitted to bursts at known instants. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from joulelab.hardware.device import Sample

LAGS_S = [i / 1000 for i in range(0, 121, 4)]
WINDOWS_S = [0.001, *(i / 1000 for i in range(5, 121, 5)), 0.15, 0.2, 0.3, 0.5, 1.0]
ENOUGH = 40  # samples
# Fits this much worse than the best one cannot be told from it: power has tails that the model has not.
WORSE = 1.10


@dataclass(frozen=True, kw_only=True)
class Response:
    """A sample stamped t is the mean of `window_s` around t - `lag_s`."""

    lag_s: float
    lag_error_s: float
    window_s: float
    explained: float  # share of the samples' variance that the bursts explain so
    idle_w: float
    busy_w: float
    samples: int


class Busy:
    """Seconds of work up to any instant."""

    def __init__(self, spans_s: Sequence[tuple[float, float]]) -> None:
        self._starts_s = [a for a, _ in spans_s]
        self._ends_s = [b for _, b in spans_s]
        self._before_s = [0.0, *accumulate(b - a for a, b in spans_s)]

    def until(self, t_s: float) -> float:
        place = bisect_right(self._starts_s, t_s)
        if not place:
            return 0.0
        return self._before_s[place - 1] + min(t_s, self._ends_s[place - 1]) - self._starts_s[place - 1]

    def share(self, start_s: float, end_s: float) -> float:
        return (self.until(end_s) - self.until(start_s)) / (end_s - start_s)


def fit(samples: Sequence[Sample], spans_s: Sequence[tuple[float, float]]) -> Response | None:
    """Lag and window that explain the samples best; None where there is too little to see."""
    if not spans_s:
        return None
    busy = Busy(spans_s)
    first_s, last_s = spans_s[0][0], spans_s[-1][1]
    inside = [(s.time_ns / 1e9, s.power_w) for s in samples if first_s < s.time_ns / 1e9 < last_s]
    powers = [w for _, w in inside]
    if len(inside) < ENOUGH or max(powers) <= min(powers):
        return None
    times = [t for t, _ in inside]
    coarse = [
        (_left(times, powers, busy, lag, window), lag, window) for lag in LAGS_S for window in WINDOWS_S
    ]
    _, lag_s, window_s = min(coarse)
    near = [lag_s + i / 1000 for i in range(-4, 5) if lag_s + i / 1000 >= 0.0]
    fine = [
        (
            _left(times, powers, busy, lag, max(0.001, window_s + i / 1000)),
            lag,
            max(0.001, window_s + i / 1000),
        )
        for lag in near
        for i in range(-4, 5, 2)
    ]
    best, lag_s, window_s = min(fine)
    as_good = [lag for left, lag, _ in [*coarse, *fine] if left <= WORSE * best + 1e-6]
    idle_w, rise_w = _line(times, powers, busy, lag_s, window_s)
    return Response(
        lag_s=lag_s,
        lag_error_s=max(0.002, *(abs(lag - lag_s) for lag in as_good)),
        window_s=window_s,
        explained=1.0 - best,
        idle_w=idle_w,
        busy_w=idle_w + rise_w,
        samples=len(inside),
    )


def _shares(times: Sequence[float], busy: Busy, lag_s: float, window_s: float) -> list[float]:
    half_s = window_s / 2
    return [busy.share(t - lag_s - half_s, t - lag_s + half_s) for t in times]


def _left(
    times: Sequence[float], powers: Sequence[float], busy: Busy, lag_s: float, window_s: float
) -> float:
    """Share of the variance that stays unexplained."""
    shares = _shares(times, busy, lag_s, window_s)
    n = len(shares)
    mean_x, mean_y = sum(shares) / n, sum(powers) / n
    xx = sum((x - mean_x) ** 2 for x in shares)
    yy = sum((y - mean_y) ** 2 for y in powers)
    xy = sum((x - mean_x) * (y - mean_y) for x, y in zip(shares, powers, strict=True))
    # A fit that falls where work rises explains nothing.
    return 1.0 - xy * xy / (xx * yy) if xx > 0 and yy > 0 and xy > 0 else 1.0


def _line(
    times: Sequence[float], powers: Sequence[float], busy: Busy, lag_s: float, window_s: float
) -> tuple[float, float]:
    shares = _shares(times, busy, lag_s, window_s)
    n = len(shares)
    mean_x, mean_y = sum(shares) / n, sum(powers) / n
    xx = sum((x - mean_x) ** 2 for x in shares)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(shares, powers, strict=True)) / xx if xx else 0.0
    return mean_y - slope * mean_x, slope
