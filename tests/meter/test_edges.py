# SPDX-License-Identifier: Apache-2.0
"""Knots and the lens between them."""

from __future__ import annotations

import math

import pytest

from joulelab.meter.edges import QUANTUM_J, EdgeCurve

S = 1_000_000_000


def _curve(*knots: tuple[float, float, float], low_w: float = 0.0, high_w: float = 700.0) -> EdgeCurve:
    curve = EdgeCurve(power_min_w=low_w, power_max_w=high_w, resolution_s=0.1)
    for time_s, half_s, energy_j in knots:
        curve.add(int(time_s * S), half_ns=int(half_s * S), energy_j=energy_j)
    return curve


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_the_bound_is_the_lens_between_two_knots(share: float) -> None:
    mean_w, low_w, high_w = 400.0, 100.0, 700.0
    curve = _curve((1.0, 0.0, 0.0), (1.1, 0.0, 40.0), low_w=low_w, high_w=high_w)
    mark = curve.mark(int((1.0 + 0.1 * share) * S))
    up_j = 0.1 * min(share * (high_w - mean_w), (1 - share) * (mean_w - low_w))
    down_j = 0.1 * min((1 - share) * (high_w - mean_w), share * (mean_w - low_w))
    assert mark.energy_j == pytest.approx(40.0 * share)
    assert mark.error_j == pytest.approx(max(up_j, down_j) + QUANTUM_J, abs=1e-6)


def test_doubt_about_an_edge_counts_at_full_power() -> None:
    curve = _curve((1.0, 0.005, 0.0), (1.1, 0.005, 70.0))
    assert curve.mark(S).error_j == pytest.approx(0.005 * 700, abs=0.01)


def test_an_edge_that_came_earlier_has_had_longer_to_draw_at_full_power() -> None:
    curve = _curve((1.0, 0.005, 0.0), (1.1, 0.0, 30.0))
    # 2 ms after the knot: up to 7 ms at 700 W instead of 2 ms at 300 W.
    assert curve.mark(int(1.002 * S)).error_j == pytest.approx(0.007 * 700 - 0.6 + QUANTUM_J)


def test_beyond_the_knots_the_bound_grows_with_the_gap() -> None:
    curve = _curve((1.0, 0.0, 0.0), (1.1, 0.0, 60.0))
    assert curve.mark(int(1.2 * S)).energy_j == pytest.approx(120.0)
    assert curve.mark(int(1.2 * S)).error_j == pytest.approx(60.0, abs=0.01)
    assert curve.mark(int(0.9 * S)).energy_j == pytest.approx(-60.0)
    assert curve.mark(int(1.1 * S)).energy_j == pytest.approx(60.0)


def test_more_power_than_the_range_allows_widens_the_range() -> None:
    curve = _curve((1.0, 0.0, 0.0), (1.1, 0.0, 90.0), (1.2, 0.0, 160.0))
    assert curve.high_w == pytest.approx(900.0)
    assert curve.between(curve.mark(S), curve.mark(int(1.2 * S)))[0] == pytest.approx(160.0)


def test_knots_that_go_back_are_left_out() -> None:
    curve = _curve((1.0, 0.0, 0.0), (1.1, 0.0, 60.0), (1.05, 0.0, 30.0))
    assert len(curve) == 2


def test_an_empty_curve_knows_nothing() -> None:
    assert math.isinf(_curve().mark(5).error_j)
    assert _curve().first_ns is None


def test_pruning_changes_nothing_that_is_kept() -> None:
    curve = _curve(*((i * 0.1, 0.001, i * 50.0 + i % 3) for i in range(5000)))
    before = [curve.mark(int(t * S)) for t in (400.05, 499.0)]
    curve.prune(400 * S)
    assert len(curve) < 1010
    assert [curve.mark(int(t * S)) for t in (400.05, 499.0)] == before


def test_after_a_break_all_that_could_be_drawn_is_in_doubt() -> None:
    curve = _curve((0.0, 0.0, 0.0), (1.0, 0.0, 400.0), low_w=50.0)
    curve.add(3 * S, half_ns=0, energy_j=400.0, broken=True)
    curve.add(4 * S, half_ns=0, energy_j=800.0)
    around = curve.between(curve.mark(S // 2), curve.mark(7 * S // 2))
    assert around[1] >= 1400.0
    assert curve.between(curve.mark(3 * S), curve.mark(4 * S))[1] < 1.0
    within = curve.between(curve.mark(S), curve.mark(2 * S))
    assert within[1] >= 700.0 - within[0]
    assert curve.low_w == 50.0  # the step of nothing is no power that was seen
