# SPDX-License-Identifier: Apache-2.0
"""Power alone."""

from __future__ import annotations

import pytest

from joulelab.meter.integral import IntegralCurve

S = 1_000_000_000


def _curve(*, window_s: float = 0.0, period_s: float = 0.0) -> IntegralCurve:
    return IntegralCurve(power_min_w=0, power_max_w=700, period_s=period_s, window_s=window_s, polled_s=0.02)


def test_a_mean_speaks_of_the_middle_of_its_window() -> None:
    curve = _curve(window_s=1.0)
    for i in range(500):
        # A step from 100 to 500 W at 5 s, as seen by a mean of the last second.
        curve.add(i * S // 50, min(500.0, max(100.0, 100.0 + 400.0 * (i / 50 - 5.0))))
    energy_j, bound_j = curve.between(curve.mark(3 * S), curve.mark(7 * S))
    assert energy_j == pytest.approx(200.0 + 1000.0, abs=1.0)
    assert bound_j > 1.0


def test_steady_power_has_next_to_no_error() -> None:
    curve = _curve()
    for i in range(500):
        curve.add(i * S // 50, 250.0)
    energy_j, bound_j = curve.between(curve.mark(3 * S), curve.mark(4 * S))
    assert energy_j == pytest.approx(250.0)
    assert bound_j < 0.01


def test_few_samples_are_believed_little() -> None:
    curve = _curve()
    for i in range(5):
        curve.add(i * S // 50, 250.0)
    assert curve.between(curve.mark(S // 100), curve.mark(S // 20))[1] > 5.0


def test_beyond_the_last_sample_anything_may_happen() -> None:
    curve = _curve()
    for i in range(100):
        curve.add(i * S // 50, 250.0)
    assert curve.mark(curve.covered_ns + S).error_j >= 450.0


def test_where_no_sample_came_anything_may_have_been_drawn() -> None:
    curve = _curve()
    for i in range(500):
        if not 200 <= i < 300:
            curve.add(i * S // 50, 100.0)
    for power_w in (0.0, 700.0):
        energy_j, bound_j = curve.between(curve.mark(3 * S), curve.mark(7 * S))
        assert abs(energy_j - (200.0 + 2 * power_w)) <= bound_j
    # Outside of the gap all is as before.
    assert curve.between(curve.mark(7 * S), curve.mark(9 * S))[1] < 10.0


def test_spikes_that_come_seldom_are_remembered() -> None:
    curve = _curve()
    for i in range(1000):
        curve.add(i * S // 50, 700.0 if i == 500 else 100.0)
    # The last 64 samples, and all around, are 100 W: one sample in a thousand may still be a spike.
    assert curve.between(curve.mark(15 * S), curve.mark(17 * S))[1] > 600.0 / 50
