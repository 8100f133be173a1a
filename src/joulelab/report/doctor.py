# SPDX-License-Identifier: Apache-2.0
"""The doctor's examination, for people and for programs."""

from __future__ import annotations

import dataclasses
import json as json_library
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from joulelab.hardware.device import Problem
    from joulelab.hardware.doctor import DeviceReport, Examination, SensorReport

SENSORS = {"counter": "energy counter", "buffer": "sample buffer", "power": "power field"}


def json(examination: Examination) -> str:
    return json_library.dumps(dataclasses.asdict(examination), indent=2)


def text(examination: Examination) -> str:
    lines: list[str] = []
    for device in examination.devices:
        lines += [*_device(device), ""]
    if not examination.devices:
        lines += ["No device with a sensor was found.", ""]
    lines += problems(examination.problems)
    lines.append("Not measured here")
    lines += [f"  {words}" for words in examination.not_measured] or [
        "  nothing: the node has a sensor of its own"
    ]
    return "\n".join(lines)


def problems(found: Iterable[Problem]) -> list[str]:
    lines = []
    for problem in found:
        lines += [f"  {problem.vendor}: {problem.what}", *_indented(problem.cure, first="    cure: ")]
    return ["Problems", *lines, ""] if lines else []


def _device(device: DeviceReport) -> list[str]:
    marks = [device.source if device.source != "estimated" else "ESTIMATED, not measured"]
    marks += ["SIMULATED"] if device.simulated else []
    marks += [f"shown, not summed: part of {device.part_of}"] if device.part_of else []
    lines = [f"{device.uid}  {device.name}  ({', '.join(marks)})", f"  includes: {device.scope}"]
    lines += [f"  {_sensor(sensor)}" for sensor in device.sensors]
    if device.memory_power_w is not None:
        lines.append(f"  of which memory: {device.memory_power_w:.1f} W")
    cap = device.cap
    if cap is not None:
        legal = f"{cap.min_w:g} to {cap.max_w:g} W, default {cap.default_w:g} W"
        lines.append(f"  power cap: {cap.now_w:g} W in force; {legal}")
    if device.gain_error:
        whose = "model" if device.source == "estimated" else "sensor"
        lines.append(f"  error of the {whose} up to {device.gain_error:.0%}, common to all runs here")
    return lines + [f"  ATTENTION: {finding}" for finding in device.findings]


def _sensor(sensor: SensorReport) -> str:
    if sensor.period_s is None:
        period = f"no second move seen (stated: every {time_words(sensor.stated_period_s)})"
    elif sensor.period_is_upper_bound:
        period = f"moves at every read, {time_words(sensor.period_s)} apart or less"
    else:
        period = f"moves every {time_words(sensor.period_s)} (n = {sensor.values})"
    power = f"; {sensor.power_w:.1f} W just now" if sensor.power_w is not None else ""
    cost = sensor.cost
    cpu, wall = time_words(cost.cpu_s), time_words(cost.wall_s)
    read = f"a read costs {cpu} of CPU, {wall} in all (median of {cost.reads})"
    return f"{SENSORS[sensor.sensor]}: {period}{power}; {read}"


def time_words(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 0.9995:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _indented(words: str, *, first: str) -> list[str]:
    lines = words.splitlines()
    return [first + lines[0], *(" " * len(first) + line.strip() for line in lines[1:])] if lines else []
