# SPDX-License-Identifier: Apache-2.0
"""The neutral device."""

from __future__ import annotations

import time

import pytest

from joulelab.errors import SensorError
from joulelab.hardware.device import Device, Found, Problem


class Slow(Device):
    name = "slow"

    def energy_j(self) -> float:
        time.sleep(0.01)
        return 5.0


def test_it_has_nothing() -> None:
    device = Device()
    assert device.samples(0) == ()
    assert device.limits() is None
    device.watch((1,))
    device.close()
    for read in (device.energy_j, device.energy, device.power_w):
        with pytest.raises(SensorError, match="this device has no"):
            read()


def test_a_reading_lies_inside_its_call() -> None:
    before_ns = time.monotonic_ns()
    reading = Slow().energy()
    after_ns = time.monotonic_ns()
    assert before_ns <= reading.time_ns - reading.half_width_ns + 1
    assert reading.time_ns + reading.half_width_ns <= after_ns + 1
    assert reading.half_width_ns >= 5_000_000
    assert reading.energy_j == 5.0


def test_finds_add_up() -> None:
    a, b = Device(), Device()
    problem = Problem(vendor="v", what="w", cure="c")
    assert Found((a,), (problem,)) + Found((b,)) == Found((a, b), (problem,))
