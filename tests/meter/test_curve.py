# SPDX-License-Identifier: Apache-2.0
"""What all curves share."""

from __future__ import annotations

from joulelab.meter.curve import Curve


def test_the_range_widens_and_tells_the_furthest_reach() -> None:
    curve = Curve(power_min_w=100.0, power_max_w=300.0)
    curve.saw(200.0)
    assert (curve.low_w, curve.high_w) == (100.0, 300.0)
    curve.saw(350.0)
    curve.saw(50.0)
    assert (curve.low_w, curve.high_w) == (50.0, 350.0)
    assert curve.reach(100.0) == 250.0
    assert curve.smear(0.1, 200.0, 200.0) == 0.1 * 300.0 / 8
