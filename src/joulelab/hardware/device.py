# SPDX-License-Identifier: Apache-2.0
"""What a device can tell. The base class is the neutral one: it has no sensor and no cap.

Standard library only: the sampler, a process that must stay light, imports this.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from joulelab.errors import SensorError


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What is known of the sensors before anything is read. None: the device does not have that sensor."""

    counter_period_s: float | None = None  # time between two moves of the energy counter
    counter_range_j: float | None = None  # the counter starts again at this many joules
    buffer_period_s: float | None = None  # time between two samples of the device's own sample buffer
    buffer_window_s: float = 0.0  # each of those samples remembers this much time
    buffer_lag_s: float = 0.0  # and is late by this much: centre of what it remembers, before its stamp
    buffer_lag_error_s: float | None = None  # give or take; None: nobody has looked, a third of the lag
    buffer_depth_s: float = 0.0  # the buffer holds this much time
    power_period_s: float | None = None  # time between two values of the power field
    power_window_s: float = 0.0  # each value is the mean of this much time
    power_min_w: float = 0.0  # physical range of the power, for error bounds
    power_max_w: float = 1000.0
    gain_error: float = 0.0  # share of the reading, common to all settings of one board


@dataclass(frozen=True)
class Reading:
    """A counter value, and when it was read: true within `half_width_ns` of `time_ns` (monotonic)."""

    time_ns: int
    half_width_ns: int
    energy_j: float


@dataclass(frozen=True)
class Sample:
    """One power value and its time stamp (monotonic)."""

    time_ns: int
    power_w: float


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The power cap of a device: what is in force, and what may be asked for."""

    now_w: float
    default_w: float
    min_w: float
    max_w: float


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A sensor that is missing or denied, in words, with the command or step that would mend it."""

    vendor: str
    what: str
    cure: str


class Device:
    """One thing that draws power."""

    uid = ""  # key of every sum: "gpu:GPU-5f3c...", "cpu:package-0"
    name = ""
    kind = "none"  # gpu, cpu, dram, node
    source = "counter"  # counter, integrated or estimated
    part_of = ""  # uid of the device whose figure already holds this one: then it is shown, not summed
    apart = False  # it holds devices that others may tell too (a whole node): summed only where it is alone
    scope = ""  # what the figure includes, in words
    simulated = False  # a fake or a replay: every figure says so
    driver = ""  # version of what stands between sensor and reader, where that is known
    traits = Traits()

    def energy(self) -> Reading:
        """The counter, stamped in the middle of the call. Devices with stamps of their own override this."""
        before_ns = time.monotonic_ns()
        energy_j = self.energy_j()
        after_ns = time.monotonic_ns()
        return Reading((before_ns + after_ns) // 2, (after_ns - before_ns + 1) // 2, energy_j)

    def energy_j(self) -> float:
        raise SensorError(f"{self.name or 'this device'} has no energy counter")

    def samples(self, after_ns: int) -> Sequence[Sample]:
        """Samples of the device's own buffer that are newer than `after_ns`, oldest first."""
        return ()

    def power_w(self) -> float:
        raise SensorError(f"{self.name or 'this device'} has no power reading")

    def limits(self) -> Limits | None:
        """The cap in force and its range; None where there is no cap to read."""
        return None

    def fields(self) -> Mapping[str, Callable[[], float]]:
        """Power readings by name that a calibration compares; figures use `power_w` alone."""
        return {}

    def environment(self) -> dict[str, str]:
        """Variables that leave this device alone visible to a program."""
        return {}

    def watch(self, pids: Sequence[int]) -> None:
        """The processes whose trees are measured; only an estimate needs to know."""

    def close(self) -> None:
        """Let go of what was opened."""


@dataclass(frozen=True)
class Found:
    """What one look at the machine gave."""

    devices: tuple[Device, ...] = ()
    problems: tuple[Problem, ...] = field(default=())

    def __add__(self, other: Found) -> Found:
        return Found(self.devices + other.devices, self.problems + other.problems)
