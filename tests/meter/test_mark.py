# SPDX-License-Identifier: Apache-2.0
"""Energy between two marks."""

from __future__ import annotations

import math

import pytest

from joulelab.meter.mark import Drift, Mark, between


def test_the_ends_add_up() -> None:
    start, end = Mark(0, 10.0, 1.0), Mark(1_000_000_000, 110.0, 2.0)
    assert between(start, end, power_min_w=0, power_max_w=700) == (100.0, 3.0)


def test_physics_bounds_what_sensors_do_not() -> None:
    start, end = Mark(0, 0.0, 500.0), Mark(1_000_000_000, 100.0, 500.0)
    assert between(start, end, power_min_w=50, power_max_w=150) == (100.0, 50.0)


def test_drift_inside_one_interval_is_bounded_from_inside_and_outside() -> None:
    left, right = Drift(0.0, 0.0), Drift(10.0, 0.0)
    start = Mark(0, 0.0, 0.0, 1, Drift(1.0, 0.0), left, right)
    end = Mark(10**9, 100.0, 0.0, 1, Drift(9.0, 0.0), left, right)
    # 8 inside, but only 1 + 1 outside.
    assert between(start, end, power_min_w=0, power_max_w=700)[1] == pytest.approx(2.0)


def test_drift_over_intervals_counts_to_the_nearer_anchor() -> None:
    start = Mark(0, 0.0, 0.0, 1, Drift(1.0, 0.0), Drift(0.0, 0.0), Drift(10.0, 0.0))
    end = Mark(10**9, 100.0, 0.0, 2, Drift(18.0, 0.0), Drift(10.0, 0.0), Drift(20.0, 0.0))
    assert between(start, end, power_min_w=0, power_max_w=700)[1] == pytest.approx(1.0 + 2.0)


def test_random_drift_adds_as_variance() -> None:
    assert Drift(0.0, 0.0).to(Drift(1.0, 9.0)) == pytest.approx(4.0)
    assert math.isinf(Mark(0, 0.0, 0.0).strayed())
