# SPDX-License-Identifier: Apache-2.0
"""From the values of a counter that wraps to joules that only grow."""

from __future__ import annotations


class Unwrapped:
    """Differences read by read, modulo the counter's range; what no device can do is not believed."""

    def __init__(self, *, range_j: float | None, power_max_w: float) -> None:
        self._range_j = range_j
        self._power_max_w = max(power_max_w, 50.0)
        self._value_j: float | None = None
        self._time_ns = 0
        self.total_j = 0.0
        self.wraps = 0
        self.jumps = 0  # times that it went back, or leapt further than the device could have drawn
        self.unsure = 0  # times that it may have wrapped more often than can be seen
        self.broken = False  # the last step may be anything that the device can draw

    def see(self, time_ns: int, value_j: float) -> bool:
        """Take one value; True if the counter moved."""
        previous_j, self._value_j = self._value_j, value_j
        elapsed_s = (time_ns - self._time_ns) * 1e-9
        self._time_ns = time_ns
        self.broken = False
        if previous_j is None:
            return False
        step_j = value_j - previous_j
        wrapped = step_j < 0 and self._range_j is not None
        if wrapped and self._range_j is not None:
            step_j += self._range_j
        if self._range_j is not None and step_j + self._range_j <= self._power_max_w * elapsed_s:
            # Read so late (this process was stopped) that there was time for one more round.
            self.unsure += 1
            self.broken = True
        if value_j == previous_j:
            return False
        # Ten times the device's power is no energy but a counter that was reset: a driver was loaded again.
        if step_j < 0 or step_j > 10 * self._power_max_w * elapsed_s + 100.0:
            self.jumps += 1
            self.broken = True
            return True
        self.wraps += wrapped
        self.total_j += step_j
        return True
