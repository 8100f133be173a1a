# SPDX-License-Identifier: Apache-2.0
"""From the sampler's figures to a Measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from joulelab.errors import SensorError
from joulelab.records.measurement import Measurement

if TYPE_CHECKING:
    from joulelab.meter.link import Link


def measurement_of(figures: dict[str, Any]) -> Measurement:
    """Figures may carry labels besides; only a measurement's own fields are taken."""
    return Measurement(
        time_s=figures["time_s"],
        energy_j=figures["energy_j"],
        energy_error_j=figures["energy_error_j"],
        energy_j_by_device=figures["energy_j_by_device"],
        power_w=figures["power_w"],
        source=figures["source"],
        resolution_s=figures["resolution_s"],
        flags=tuple(figures["flags"]),
    )


def asked(link: Link, request: dict[str, Any]) -> Measurement:
    """Figures of a span from the sampler; where it cannot say, the time, and why there is no energy."""
    try:
        return measurement_of(link.ask(request))
    except SensorError as error:
        time_s = (request["end"] - request["start"]) * 1e-9
        return Measurement(time_s=time_s, energy_j=None, energy_error_j=None, flags=(error.message,))
