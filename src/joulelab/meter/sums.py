# SPDX-License-Identifier: Apache-2.0
"""From the energies of the devices to the figures of one window.

What must not be added is listed, not added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# A bound above this share of the energy earns a flag.
SHORT = 0.10
# An estimate's bound holds its model's error too, which is there in the longest window.
SHORT_ESTIMATE = 0.60


@dataclass(frozen=True, kw_only=True)
class DeviceEnergy:
    """One device in one window."""

    uid: str
    source: str
    energy_j: float | None
    error_j: float
    resolution_s: float
    part_of: str = ""
    simulated: bool = False
    flags: tuple[str, ...] = ()  # about the device; with energy_j None, why


def summed(devices: Sequence[DeviceEnergy], *, time_s: float, flags: Iterable[str] = ()) -> dict[str, object]:
    """The fields of a Measurement."""
    notes = list(flags)
    for device in devices:
        notes += device.flags
    known = [device for device in devices if device.energy_j is not None]
    # Also where the whole has been lost: its part would look like all of it, or count others twice.
    uids = {device.uid for device in devices}
    whole = [device for device in known if device.part_of not in uids]
    measured = [device for device in whole if device.source != "estimated"]
    taken = measured or whole
    if measured:
        notes += [f"estimated, not in the sum: {d.uid}" for d in whole if d.source == "estimated"]
    notes += [f"not in the sum: {d.uid}" for d in devices if d.energy_j is None]
    if any(device.simulated for device in taken):
        notes.append("simulated")
    sources = {device.source for device in taken}
    if len(sources) > 1:
        notes.append("sum of counters and of integrated power")
    source = "integrated" if "integrated" in sources else next(iter(sources), "counter")
    energy_j = error_j = None
    if taken:
        energy_j = sum(device.energy_j or 0.0 for device in taken)
        error_j = sum(device.error_j for device in taken)
        if error_j > (SHORT_ESTIMATE if source == "estimated" else SHORT) * abs(energy_j):
            share = f"{100 * error_j / abs(energy_j):.0f}%" if energy_j else "more than all"
            notes.append(f"short: error bound {share} of the energy")
    elif not notes:
        notes.append("no device to read energy from")
    return {
        "time_s": time_s,
        "energy_j": energy_j,
        "energy_error_j": error_j,
        "energy_j_by_device": {device.uid: device.energy_j for device in known},
        "power_w": energy_j / time_s if energy_j is not None and time_s > 0 else None,
        "source": source,
        "resolution_s": max((device.resolution_s for device in taken), default=0.0),
        "flags": list(dict.fromkeys(notes)),
    }
