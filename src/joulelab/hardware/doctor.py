# SPDX-License-Identifier: Apache-2.0
"""What the sensors of this machine can do, found by using them against the clock."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from joulelab.errors import SensorError
from joulelab.hardware.cost import Cost, cost_of
from joulelab.hardware.device import Device, Limits, Problem
from joulelab.hardware.find import find

# Moves that come this much faster than the sensor is read cannot be told apart from a steady rise.
EVERY_READ = 1.5


@dataclass(frozen=True, kw_only=True)
class SensorReport:
    """One sensor of a device. `period_s` is as found here; None: it did not move twice meanwhile."""

    sensor: str  # counter, buffer or power
    cost: Cost
    stated_period_s: float
    period_s: float | None
    period_is_upper_bound: bool  # it moved at every read: it may well be finer
    values: int  # moves seen, or samples got
    power_w: float | None  # mean over the time it was watched, as this sensor has it


@dataclass(frozen=True, kw_only=True)
class DeviceReport:
    uid: str
    name: str
    kind: str
    source: str
    scope: str
    part_of: str
    simulated: bool
    gain_error: float
    memory_power_w: float | None
    cap: Limits | None
    sensors: tuple[SensorReport, ...]
    findings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Examination:
    seconds: float
    devices: tuple[DeviceReport, ...]
    problems: tuple[Problem, ...]
    not_measured: tuple[str, ...]


def examine(*, names: Sequence[str] = (), seconds: float = 1.0) -> Examination:
    """Look for devices and watch each of their sensors for `seconds`."""
    found = find(names)
    problems = list(found.problems)
    reports = []
    for device in found.devices:
        try:
            reports.append(_device(device, seconds=seconds))
        except SensorError as error:
            problems.append(Problem(vendor=device.uid, what=error.message, cure=error.cure))
        finally:
            device.close()
    return Examination(
        seconds=seconds,
        devices=tuple(reports),
        problems=tuple(problems),
        not_measured=_not_measured(reports),
    )


def _device(device: Device, *, seconds: float) -> DeviceReport:
    traits = device.traits
    start_ns = time.monotonic_ns()
    sensors = []
    if traits.counter_period_s is not None:
        sensors.append(_counter(device, seconds=seconds))
    if traits.power_period_s is not None:
        sensors.append(_power(device, seconds=seconds if not sensors else min(seconds, 0.3)))
    if traits.buffer_period_s is not None:
        if not sensors:
            time.sleep(seconds)
        # Read last: it then holds what the other sensors have just been watched for.
        sensors.append(_buffer(device, after_ns=start_ns))
    memory_power_w = getattr(device, "memory_power_w", None)
    return DeviceReport(
        uid=device.uid,
        name=device.name,
        kind=device.kind,
        source=device.source,
        scope=device.scope,
        part_of=device.part_of,
        simulated=device.simulated,
        gain_error=traits.gain_error,
        memory_power_w=memory_power_w() if memory_power_w else None,
        cap=device.limits(),
        sensors=tuple(sensors),
        findings=_findings(sensors),
    )


def _counter(device: Device, *, seconds: float) -> SensorReport:
    cost = cost_of(device.energy)
    range_j = device.traits.counter_range_j
    last = device.energy()
    end_ns = last.time_ns + round(seconds * 1e9)
    reads = moves = 0
    steps_s: list[float] = []
    energy_j = 0.0
    while time.monotonic_ns() < end_ns:
        reading = device.energy()
        reads += 1
        if reading.energy_j == last.energy_j:
            continue
        moves += 1
        if moves > 1:  # the first reading was taken anywhere in its period; only moves are edges
            steps_s.append((reading.time_ns - last.time_ns) / 1e9)
            gained_j = reading.energy_j - last.energy_j
            energy_j += gained_j % range_j if range_j else gained_j
        last = reading
    return SensorReport(
        sensor="counter",
        cost=cost,
        stated_period_s=device.traits.counter_period_s or 0.0,
        period_s=statistics.median(steps_s) if steps_s else None,
        period_is_upper_bound=reads < EVERY_READ * moves,
        values=moves,
        power_w=energy_j / sum(steps_s) if steps_s else None,
    )


def _power(device: Device, *, seconds: float) -> SensorReport:
    cost = cost_of(device.power_w)
    start_ns = now_ns = time.monotonic_ns()
    # Reads are spread out: some drivers answer nonsense when asked without pause.
    pause_s = max(0.001, (device.traits.power_period_s or 0.1) / 20)
    values: list[float] = []
    moves_ns: list[int] = []
    while now_ns < start_ns + seconds * 1e9 or not values:
        values.append(device.power_w())
        now_ns = time.monotonic_ns()
        if len(values) > 1 and values[-1] != values[-2]:
            moves_ns.append(now_ns)
        time.sleep(pause_s)
    steps_s = [(b - a) / 1e9 for a, b in pairwise(moves_ns)]
    return SensorReport(
        sensor="power",
        cost=cost,
        stated_period_s=device.traits.power_period_s or 0.0,
        period_s=statistics.median(steps_s) if steps_s else None,
        period_is_upper_bound=len(values) < EVERY_READ * len(moves_ns),
        values=len(moves_ns),
        power_w=statistics.fmean(values),
    )


def _buffer(device: Device, *, after_ns: int) -> SensorReport:
    samples = device.samples(after_ns)
    cost = cost_of(lambda: device.samples(0))
    steps_s = [(b.time_ns - a.time_ns) / 1e9 for a, b in pairwise(samples)]
    return SensorReport(
        sensor="buffer",
        cost=cost,
        stated_period_s=device.traits.buffer_period_s or 0.0,
        period_s=statistics.median(steps_s) if steps_s else None,
        period_is_upper_bound=False,
        values=len(samples),
        power_w=statistics.fmean(s.power_w for s in samples) if samples else None,
    )


def _findings(sensors: Sequence[SensorReport]) -> tuple[str, ...]:
    """What does not fit together."""
    found = []
    by_name = {s.sensor: s for s in sensors}
    counter = by_name.get("counter")
    if counter and counter.values == 0:
        found.append("the counter did not move while it was watched: it is stuck, or slower than that")
    if counter and counter.power_w:
        for other in ("power", "buffer"):
            sensor = by_name.get(other)
            if sensor and sensor.power_w is not None:
                ratio = sensor.power_w / counter.power_w
                # An averaged field looks a second further back than the counter was watched.
                if not 0.8 <= ratio <= 1.25:
                    found.append(
                        f"by its counter {counter.power_w:.1f} W, by its {other} {sensor.power_w:.1f} W: "
                        "look again under a steady load; if it stays, one of them is wrong"
                    )
    for sensor in sensors:
        period_s = sensor.period_s
        is_off = period_s and not 0.67 <= period_s / sensor.stated_period_s <= 1.5
        if is_off and not sensor.period_is_upper_bound:
            found.append(
                f"its {sensor.sensor} moves every {period_s:.3g} s, not every {sensor.stated_period_s:.3g} s"
            )
    return tuple(found)


def _not_measured(devices: Sequence[DeviceReport]) -> tuple[str, ...]:
    """Parts of a machine that no sensor here covers. A node's own sensor covers them all."""
    if any(d.kind == "node" for d in devices):
        return ()
    kinds = {d.kind for d in devices if d.source != "estimated"}
    words = {
        "gpu": "GPUs: no GPU with a sensor was found",
        "cpu": "CPUs: no energy counter can be read",
        "dram": "DRAM: no energy counter can be read",
    }
    missing = [text for kind, text in words.items() if kind not in kinds]
    return (*missing, "fans, disks, network cards and the losses of the power supply")
