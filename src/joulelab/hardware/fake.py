# SPDX-License-Identifier: Apache-2.0
"""A device whose power is a function of time, its sensors as real ones are: late, coarse, denied, lost.

Nothing is stored between reads: every value follows from the clock, so all processes see the same device.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from joulelab.errors import InputError, SensorError
from joulelab.hardware.device import Device, Found, Limits, Problem, Sample, Traits
from joulelab.hardware.fake_cap import CapLog, CappedLoad
from joulelab.hardware.loads import Load, Square, noise

SENSORS = ("counter", "buffer", "power")


@dataclass(frozen=True, kw_only=True)
class Sensors:
    """How the fake is read. A period of None: it does not have that sensor."""

    counter_period_s: float | None = 0.1
    counter_jitter_s: float = 0.0  # each update comes up to this much late
    counter_range_j: float | None = None
    counter_unit_j: float = 0.001
    buffer_period_s: float | None = None
    buffer_jitter_s: float = 0.0
    buffer_window_s: float = 0.04
    buffer_lag_s: float = 0.015
    buffer_depth_s: float = 2.4
    power_period_s: float | None = None
    power_window_s: float = 0.0
    gain: float = 1.0  # every sensor shows truth times this
    read_cost_s: float = 0.0  # CPU time of one counter read
    denied: tuple[str, ...] = ()
    lost_after_s: float | None = None  # from here on, counted from opening, every read fails
    stuck_after_s: float | None = None  # from here on the counter stands still
    power_min_w: float = 0.0
    power_max_w: float | None = None  # None: the highest power of the load

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name.endswith("period_s") and value is not None and not value > 0.0:
                raise InputError(f"fake: {f.name} = {value!r} is not legal", cure="legal: above 0, or null")
            if isinstance(value, int | float) and not value >= 0.0:
                raise InputError(f"fake: {f.name} = {value!r} is not legal", cure="legal: at least 0")
        for period_s, jitter_s in (
            (self.counter_period_s, self.counter_jitter_s),
            (self.buffer_period_s, self.buffer_jitter_s),
        ):
            if period_s is not None and jitter_s >= period_s:
                raise InputError(
                    f"fake: a jitter of {jitter_s} s is not shorter than its period of {period_s} s",
                    cure="make it shorter: updates must keep their order",
                )
        wrong = [s for s in self.denied if s not in SENSORS]
        if wrong:
            raise InputError(f"fake: denied = {wrong[0]!r} is not legal", cure=f"legal: {', '.join(SENSORS)}")


class Fake(Device):
    """`Fake(power=Square(), clock=...)` in a test; `fake:FILE.json` anywhere a device is named."""

    simulated = True

    def __init__(
        self,
        *,
        power: Load,
        sensors: Sensors | None = None,
        uid: str = "gpu:fake-0",
        kind: str = "gpu",
        cap: Limits | None = None,
        cap_log: CapLog | None = None,
        seed: int = 0,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.load = power
        self.sensors = sensors or Sensors()
        self.uid = uid
        self.kind = kind
        self.name = f"simulated {kind} {uid.rpartition('-')[2]}"
        self.scope = "simulated: a power curve that was given, not a measurement"
        self._cap = cap
        self._cap_log = cap_log
        self._drawn = CappedLoad(power, cap_log) if cap_log else power
        self._seed = seed
        self._clock = clock
        self._opened_s = clock() / 1e9
        s = self.sensors
        counter_s = None if "counter" in s.denied else s.counter_period_s
        self.source = "counter" if counter_s is not None else "integrated"
        self.traits = Traits(
            counter_period_s=counter_s,
            counter_range_j=s.counter_range_j,
            buffer_period_s=None if "buffer" in s.denied else s.buffer_period_s,
            buffer_window_s=s.buffer_window_s,
            buffer_lag_s=s.buffer_lag_s,
            buffer_depth_s=s.buffer_depth_s,
            power_period_s=None if "power" in s.denied else s.power_period_s,
            power_window_s=s.power_window_s,
            power_min_w=s.power_min_w,
            power_max_w=s.power_max_w if s.power_max_w is not None else power.max_w * max(1.0, s.gain),
            gain_error=abs(s.gain - 1.0),
        )

    @classmethod
    def find(cls, argument: str = "") -> Found:
        if not argument:
            return Found((cls(power=Square()),))
        from joulelab.hardware.fake_file import read

        devices = [cls(**arguments) for arguments in read(argument)]
        usable = [d for d in devices if _answers(d.traits)]
        problems = [
            Problem(
                vendor="fake",
                what=f"{d.uid}: no permission to read {', '.join(d.sensors.denied)}",
                cure=f"take 'denied' out of {argument}",
            )
            for d in devices
            if d.sensors.denied
        ]
        return Found(tuple(usable), tuple(problems))

    def truth_j(self, start_ns: int, end_ns: int) -> float:
        """What a perfect meter would say; no gain, no delay."""
        return self._drawn.integral_j(start_ns / 1e9, end_ns / 1e9)

    def energy_j(self) -> float:
        period_s = self.traits.counter_period_s
        if period_s is None:
            return super().energy_j()
        s = self.sensors
        _burn(s.read_cost_s)
        now_s = self._now_s()
        if s.stuck_after_s is not None:
            now_s = min(now_s, self._opened_s + s.stuck_after_s)
        k = math.floor(now_s / period_s)
        update_s = self._update_s(k, period_s=period_s, jitter_s=s.counter_jitter_s)
        if update_s > now_s:
            update_s = self._update_s(k - 1, period_s=period_s, jitter_s=s.counter_jitter_s)
        energy_j = s.gain * self._drawn.integral_j(0.0, update_s)
        if s.counter_unit_j:
            energy_j = math.floor(energy_j / s.counter_unit_j) * s.counter_unit_j
        return energy_j % s.counter_range_j if s.counter_range_j else energy_j

    def samples(self, after_ns: int) -> Sequence[Sample]:
        period_s = self.traits.buffer_period_s
        if period_s is None:
            return ()
        s = self.sensors
        now_s = self._now_s()
        # A sample cannot be read before the last moment that it remembers.
        newest_s = now_s - max(0.0, s.buffer_window_s / 2 - s.buffer_lag_s)
        oldest_s = max(now_s - s.buffer_depth_s, after_ns / 1e9)
        found = []
        for k in range(math.floor(oldest_s / period_s) - 1, math.floor(newest_s / period_s) + 1):
            stamp_s = self._update_s(k, period_s=period_s, jitter_s=s.buffer_jitter_s)
            stamp_ns = round(stamp_s * 1e9)
            if stamp_ns > after_ns and oldest_s <= stamp_s <= newest_s:
                centre_s = stamp_s - s.buffer_lag_s
                half_s = s.buffer_window_s / 2
                mean_w = self._drawn.mean_w(centre_s - half_s, centre_s + half_s)
                found.append(Sample(stamp_ns, s.gain * mean_w))
        return found

    def power_w(self) -> float:
        period_s = self.traits.power_period_s
        if period_s is None:
            return super().power_w()
        update_s = math.floor(self._now_s() / period_s) * period_s
        return self.sensors.gain * self._drawn.mean_w(update_s - self.sensors.power_window_s, update_s)

    def limits(self) -> Limits | None:
        return self._cap_log.limits() if self._cap_log else self._cap

    def _now_s(self) -> float:
        now_s = self._clock() / 1e9
        lost_s = self.sensors.lost_after_s
        if lost_s is not None and now_s >= self._opened_s + lost_s:
            raise SensorError(
                f"{self.uid} no longer answers", cure="it was told to be lost by 'lost_after_s'"
            )
        return now_s

    def _update_s(self, k: int, *, period_s: float, jitter_s: float) -> float:
        return k * period_s + (jitter_s * noise(self._seed, k) if jitter_s else 0.0)


def _answers(traits: Traits) -> bool:
    return any((traits.counter_period_s, traits.buffer_period_s, traits.power_period_s))


def _burn(seconds: float) -> None:
    """A driver call that keeps the CPU busy, as the real ones do."""
    if seconds > 0.0:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
