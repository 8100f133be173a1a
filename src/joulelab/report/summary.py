# SPDX-License-Identifier: Apache-2.0
"""One measurement in words, for `joulelab measure`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from joulelab.report.numbers import duration, quantity, relative, visible

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.records.measurement import Measurement

# What stands behind each source, where a person reads the figure.
SOURCES = {
    "counter": "energy counter of the device",
    "integrated": "power readings, added up over time",
    "estimated": "no sensor: a model of CPU time and memory",
    "reported": "taken over from another tool or a paper",
}
NOT_ADDED = "estimated, not in the sum: "  # as the meter's flag begins
CURE = "no energy sensor was used; `joulelab doctor` says which there are and how to open them"


def text(measurement: Measurement, *, title: str = "", folder: Path | None = None) -> str:
    """Time, energy with its error, power, source, devices, flags. Every line with an estimate says so."""
    mark = marks(measurement)
    lines = [
        ("time", duration(measurement.time_s)),
        ("energy", _energy(measurement) + mark),
        ("power", quantity(measurement.power_w, "W") + (mark if measurement.power_w is not None else "")),
    ]
    if measurement.energy_j is not None:
        lines.append(("source", f"{measurement.source}: {SOURCES.get(measurement.source, 'unknown')}"))
    # One device is the sum itself.
    if len(measurement.energy_j_by_device) > 1:
        lines += _devices(measurement, mark=mark)
    else:
        lines += [("device", uid) for uid in measurement.energy_j_by_device]
    lines += [("note", flag) for flag in measurement.flags]
    if measurement.source == "estimated" and measurement.energy_j is not None:
        lines.append(("note", CURE))
    if folder is not None:
        lines.append(("record", visible(str(folder))))
    width = max(len(name) for name, _ in lines)
    head = [f"joulelab: {visible(title)}"] if title else []
    return "\n".join([*head, *(f"  {name:<{width}}  {value}" for name, value in lines)])


def _devices(measurement: Measurement, *, mark: str) -> list[tuple[str, str]]:
    """A line a device. What is not in the sum says so: else a reader would add it up."""
    apart = {uid for uid in measurement.energy_j_by_device if NOT_ADDED + uid in measurement.flags}
    added_j = {uid: j for uid, j in measurement.energy_j_by_device.items() if uid not in apart}
    lines = [
        (f"  {uid}", quantity(j, "J") + ("  (estimated, not in the sum)" if uid in apart else mark))
        for uid, j in measurement.energy_j_by_device.items()
    ]
    if measurement.energy_j is not None and not math.isclose(sum(added_j.values()), measurement.energy_j):
        lines.append(("note", "a device that is part of another one is listed, and counted once"))
    return lines


def marks(measurement: Measurement) -> str:
    """What must stand beside every figure of this measurement; nothing where it was measured."""
    words = ["estimated"] if measurement.source == "estimated" else []
    words += ["reported"] if measurement.source == "reported" else []
    words += ["simulated"] if any(flag.startswith("simulated") for flag in measurement.flags) else []
    return f"  ({', '.join(words)})" if words else ""


def _energy(measurement: Measurement) -> str:
    if measurement.energy_j is None:
        return quantity(None, "J", reason="; ".join(measurement.flags) or "no sensor answered")
    shown = quantity(measurement.energy_j, "J", error=measurement.energy_error_j)
    return f"{shown} ({relative(measurement.energy_error_j, measurement.energy_j)})"
