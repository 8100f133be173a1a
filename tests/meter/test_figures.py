# SPDX-License-Identifier: Apache-2.0
"""From figures to measurements."""

from __future__ import annotations

from joulelab.meter.figures import asked, measurement_of
from joulelab.meter.link import Link
from joulelab.meter.sums import DeviceEnergy, summed


def test_the_samplers_figures_are_a_measurement() -> None:
    device = DeviceEnergy(uid="gpu:0", source="counter", energy_j=5.0, error_j=0.1, resolution_s=0.1)
    measured = measurement_of({**summed([device], time_s=2.0), "id": "1-2", "name": "x"})
    assert (measured.energy_j, measured.power_w, measured.flags) == (5.0, 2.5, ())


def test_no_answer_is_a_time_without_energy() -> None:
    measured = asked(Link("it has gone"), {"op": "between", "start": 10**9, "end": 3 * 10**9})
    assert (measured.time_s, measured.energy_j, measured.flags) == (2.0, None, ("it has gone",))
