# SPDX-License-Identifier: Apache-2.0
"""The energy at one instant, small enough to be kept while a window runs, and the energy between two."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Drift:
    """How far a curve may have wandered so far: a part that adds up, and a random part (as variance).

    Only differences of two of these mean anything.
    """

    steady_j: float = 0.0
    random_j2: float = 0.0

    def to(self, later: Drift) -> float:
        """Bound of what was gained or lost between here and `later`."""
        return max(0.0, later.steady_j - self.steady_j) + math.sqrt(
            max(0.0, later.random_j2 - self.random_j2)
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """Cumulative energy of a device at one instant.

    `error_j` bounds what is uncertain at this very instant. Where the curve is held by anchors (instants at
    which a counter fixes it), `left` and `right` are the drift at the anchors around the mark and `interval`
    numbers them.
    """

    time_ns: int
    energy_j: float
    error_j: float
    interval: int = 0
    drift: Drift = Drift()
    left: Drift | None = None
    right: Drift | None = None
    doubt_j: float = 0.0  # bound of what breaks of the counter hide, so far: only differences mean something

    def strayed(self) -> float:
        """Bound of the drift to the nearer of the two anchors; infinite where there is none."""
        before = self.left.to(self.drift) if self.left is not None else math.inf
        after = self.drift.to(self.right) if self.right is not None else math.inf
        return min(before, after)


def between(start: Mark, end: Mark, *, power_min_w: float, power_max_w: float) -> tuple[float, float]:
    """Energy from `start` to `end` and the bound of its error, both in joules."""
    energy_j = end.energy_j - start.energy_j
    drift_j = start.drift.to(end.drift)
    anchored = start.left is not None and end.right is not None
    if anchored and start.interval == end.interval:
        # What is missing inside the window must be found outside of it, between the same two anchors.
        assert start.left is not None
        assert end.right is not None
        drift_j = min(drift_j, start.left.to(start.drift) + end.drift.to(end.right))
    else:
        drift_j = min(drift_j, start.strayed() + end.strayed())
    error_j = start.error_j + end.error_j + drift_j + max(0.0, end.doubt_j - start.doubt_j)
    # No device can draw less or more than its range allows, whatever the readings say.
    time_s = (end.time_ns - start.time_ns) * 1e-9
    physical_j = max(energy_j - power_min_w * time_s, power_max_w * time_s - energy_j)
    return energy_j, min(error_j, max(physical_j, 0.0))
