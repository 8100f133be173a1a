# SPDX-License-Identifier: Apache-2.0
"""When to read a counter that moves once a period, so that two or three reads find when it moved."""

from __future__ import annotations

from dataclasses import dataclass

# By how much the period may be other than believed, as a share of itself: before it was measured, and after.
CREEP = 1e-4
MEASURED_CREEP = 1e-5


@dataclass(frozen=True, slots=True)
class Edge:
    """The counter moved at `time_ns`, give or take `half_ns`."""

    time_ns: int
    half_ns: int


class Lock:
    """Reads shortly before the expected edge, at it, and shortly after it.

    The first and the last of the three enclose the edge; the one in the middle says on which side of the
    expectation it fell, so that the expectation is halved in width each time, as in a bisection.
    """

    def __init__(self, period_s: float) -> None:
        self._nominal_ns = int(period_s * 1e9)
        self.period_ns = float(self._nominal_ns)
        self.next_ns = 0  # when to read next; 0 is at once
        self.edges = 0
        self._quiet_ns: int | None = None  # the counter had surely not moved again by then
        self._edge_ns: float | None = None  # the last edge as it is believed to be
        self._slack_ns = 0.0  # half width of that belief
        self._first: tuple[float, int, float] | None = None  # an edge long ago, periods since, its slack
        self._reach_ns = self._nominal_ns / 10
        self._expected_ns = 0.0
        self._plan: list[float] = []
        self._missed = 0
        self._searched = 0
        self._rest_ns = 0
        self._late_ns = 0.0  # how much later than asked for the middle of a read lies, of late
        self._creep = CREEP
        self._read_half_ns = 0

    def rest(self, until_ns: int) -> None:
        """After the next edge, leave all edges before `until_ns` alone."""
        self._rest_ns = until_ns

    def wake(self, now_ns: int) -> None:
        """Rest no longer: the next edge is wanted."""
        self._rest_ns = 0
        if self._edge_ns is not None and self._expected_ns - now_ns > 1.2 * self.period_ns:
            self._look_ahead(now_ns)

    def see(self, time_ns: int, *, half_ns: int, moved: bool) -> Edge | None:
        """Take one read; the edge that it found, if it was found well enough to be of use."""
        if 0 < self.next_ns <= time_ns < self.next_ns + self.period_ns:
            self._late_ns += (time_ns - self.next_ns - self._late_ns) / 8
        self._read_half_ns = half_ns
        quiet_ns, self._quiet_ns = self._quiet_ns, time_ns - half_ns
        if not moved or quiet_ns is None:
            self._unmoved(time_ns)
            return None
        low_ns, high_ns = quiet_ns, time_ns + half_ns
        if high_ns - low_ns > self.period_ns / 2:
            rested = high_ns - low_ns > 1.5 * self.period_ns
            if rested and self._edge_ns is not None and time_ns < self._expected_ns:
                # The first read after a rest only says where the counter stands.
                self._unmoved(time_ns)
                return None
            self._missed += not rested
            self._reach_ns = min(self._nominal_ns / 5, 1.5 * self._reach_ns)
            if self._missed > 2:
                self._edge_ns = None
            self._look_ahead(time_ns)
            return None
        self._missed = self._searched = 0
        self._believe(low_ns, high_ns, half_ns)
        assert self._edge_ns is not None
        self._look_ahead(time_ns)
        self.edges += 1
        edge_ns = int(self._edge_ns)
        return Edge(edge_ns, max(high_ns - edge_ns, edge_ns - low_ns))

    def _believe(self, low_ns: int, high_ns: int, half_ns: int) -> None:
        """Bring the new enclosure and what was expected together."""
        middle_ns = (low_ns + high_ns) / 2
        smallest_ns = max(self._nominal_ns / 50, 3.5 * half_ns)
        if self._edge_ns is None:
            self._first = None
            self._edge_ns, self._slack_ns = middle_ns, (high_ns - low_ns) / 2
        else:
            periods = max(1, round((middle_ns - self._edge_ns) / self.period_ns))
            expected_ns = self._edge_ns + periods * self.period_ns
            slack_ns = self._slack_ns + periods * self.period_ns * self._creep
            low = max(float(low_ns), expected_ns - slack_ns)
            high = min(float(high_ns), expected_ns + slack_ns)
            if low <= high:
                self._edge_ns, self._slack_ns = (low + high) / 2, (high - low) / 2
                self._reach_ns = max(smallest_ns, 0.9 * self._reach_ns)
            else:
                # The edges wander by more than was believed: trust what was just seen, and look further
                # around.
                self._edge_ns, self._slack_ns = middle_ns, (high_ns - low_ns) / 2
                self._reach_ns = min(self._nominal_ns / 5, 2 * self._reach_ns)
            self._regress(periods)
        self._reach_ns = max(self._reach_ns, smallest_ns)

    def _regress(self, periods: int) -> None:
        """The true period, from an edge long ago, as soon as that is known better than the nominal one."""
        assert self._edge_ns is not None
        if self._first is None or self._slack_ns < self._first[2] / 2:
            self._first = (self._edge_ns, 0, self._slack_ns)
            return
        first_ns, count, slack_ns = self._first
        count += periods
        self._first = (first_ns, count, slack_ns)
        period_ns = (self._edge_ns - first_ns) / count
        doubt = (slack_ns + self._slack_ns) / count / self._nominal_ns
        if doubt < CREEP / 2 and abs(period_ns / self._nominal_ns - 1) < 0.05:
            self.period_ns = period_ns
            self._creep = doubt + MEASURED_CREEP

    def _look_ahead(self, now_ns: int) -> None:
        """Plan the reads around the next edge that is still to come."""
        if self._edge_ns is None:
            self._plan = []
            self.next_ns = now_ns + int(self.period_ns / 8)
            return
        # Reads lie later than asked for, by their own length and the machine's load: ask earlier.
        earliest_ns = max(now_ns + self._late_ns, self._rest_ns)
        periods = max(1, -int((self._edge_ns - self._reach_ns - earliest_ns) // self.period_ns))
        self._expected_ns = self._edge_ns + periods * self.period_ns
        first_ns = self._expected_ns - self._reach_ns
        self._plan = [self._expected_ns + self._reach_ns]
        # Once the expectation is good, the read in the middle only has to keep it so.
        if self.edges % 4 == 0 or self._slack_ns > max(self._reach_ns / 8, self._read_half_ns):
            self._plan.insert(0, self._expected_ns)
        self.next_ns = int(first_ns - self._late_ns)

    def _unmoved(self, now_ns: int) -> None:
        if self._edge_ns is None:
            # A counter that stands still is not worth a read every eighth of a period for ever.
            self._searched += 1
            self.next_ns = now_ns + int(self.period_ns / (8 if self._searched < 32 else 1))
            return
        while self._plan and self._plan[0] <= now_ns:
            self._plan.pop(0)
        if self._plan:
            self.next_ns = int(self._plan.pop(0) - self._late_ns)
        elif now_ns < self._expected_ns + self.period_ns / 2:
            self.next_ns = now_ns + int(self._reach_ns)
        else:
            # Lost: look everywhere again.
            self._edge_ns = None
            self.next_ns = now_ns + int(self.period_ns / 8)
