# SPDX-License-Identifier: Apache-2.0
"""Samples between anchors."""

from __future__ import annotations

import math

import pytest

from joulelab.meter.shape import ShapeCurve

S = 1_000_000_000


def _curve(*, window_s: float = 0.04) -> ShapeCurve:
    return ShapeCurve(power_min_w=0.0, power_max_w=700.0, period_s=0.02, window_s=window_s, lag_s=0.0)


def test_samples_are_scaled_to_the_counter() -> None:
    curve = _curve()
    for i in range(201):
        curve.add(i * S // 50, 300.0 if i < 100 else 600.0)
    curve.anchor(0, half_ns=0, energy_j=1000.0)
    curve.anchor(4 * S, half_ns=0, energy_j=1000.0 + 0.9 * 1800.0)
    assert curve.between(curve.mark(0), curve.mark(4 * S))[0] == pytest.approx(1620.0)
    assert curve.mark(S).energy_j == pytest.approx(1000.0 + 0.9 * 300.0, abs=2.0)
    assert curve.unscaled(0, 4 * S) == pytest.approx(1800.0, abs=4.0)


def test_at_an_anchor_nothing_has_strayed() -> None:
    curve = _curve()
    for i in range(101):
        curve.add(i * S // 50, 400.0 + 100.0 * math.sin(i))
    curve.anchor(S // 2, half_ns=0, energy_j=0.0)
    curve.anchor(3 * S // 2, half_ns=0, energy_j=400.0)
    assert curve.mark(S // 2).strayed() == pytest.approx(0.0)
    assert curve.mark(3 * S // 2).energy_j == pytest.approx(400.0)
    assert 0 < curve.mark(S).strayed() < 100.0


def test_an_anchor_that_the_samples_have_not_reached_is_not_used() -> None:
    curve = _curve()
    for i in range(51):
        curve.add(i * S // 50, 200.0)
    curve.anchor(0, half_ns=0, energy_j=0.0)
    curve.anchor(S // 2, half_ns=0, energy_j=100.0)
    # After the last sample, at 1 s, the power rose to 600 W; nobody has seen that shape yet.
    curve.anchor(3 * S // 2, half_ns=0, energy_j=500.0)
    assert curve.covered_ns == S // 2
    mark = curve.mark(9 * S // 10)
    assert mark.energy_j == pytest.approx(180.0)
    assert mark.right is None
    for i in range(51, 101):
        curve.add(i * S // 50, 600.0)
    assert curve.covered_ns == 3 * S // 2


def test_before_the_first_anchor_the_buffer_reaches_back() -> None:
    curve = _curve()
    for i in range(101):
        curve.add(i * S // 50, 500.0)
    curve.anchor(S, half_ns=0, energy_j=100.0)
    assert curve.first_ns == 0
    assert curve.covered_ns == S
    mark = curve.mark(S // 2)
    assert mark.energy_j == pytest.approx(-150.0)
    assert mark.left is None
    assert mark.right is not None


@pytest.mark.parametrize(
    ("least_w", "most_w", "share"), [(350, 350, 1 / 8), (0, 0, 0), (70, 70, 0.045), (0, 700, 1 / 8)]
)
def test_the_smear_of_a_window(least_w: float, most_w: float, share: float) -> None:
    assert _curve().smear(0.04, least_w, most_w) == pytest.approx(0.04 * 700 * share)


def test_pruning_changes_nothing_that_is_kept() -> None:
    curve = _curve()
    for i in range(10_000):
        curve.add(i * S // 50, 400.0 + 100.0 * math.sin(i))
        if i % 100 == 0:
            curve.anchor(i * S // 50, half_ns=0, energy_j=8.0 * i)
    before = curve.mark(150 * S + 7)
    curve.prune(149 * S)
    after = curve.mark(150 * S + 7)
    assert (after.energy_j, after.error_j) == (before.energy_j, before.error_j)
    assert after.strayed() == before.strayed()


@pytest.mark.parametrize("hidden_w", [0.0, 700.0])
def test_what_the_samples_missed_is_put_where_they_are_missing(hidden_w: float) -> None:
    """From 1.5 s to 3.5 s the buffer was not read, and the power was another one."""
    curve = _curve()
    for i in range(251):
        if not 75 < i < 175:
            curve.add(i * S // 50, 200.0)

    def truth_j(time_s: float) -> float:
        return 200.0 * time_s + (hidden_w - 200.0) * min(2.0, max(0.0, time_s - 1.5))

    for time_s in (0.0, 1.0, 4.0, 4.9):
        curve.anchor(int(time_s * S), half_ns=0, energy_j=truth_j(time_s))
    for start_s, end_s in (
        (0.5, 1.4),
        (0.5, 2.0),
        (0.5, 3.6),
        (2.0, 3.0),
        (1.6, 1.7),
        (3.55, 4.5),
        (0.2, 4.7),
    ):
        energy_j, bound_j = curve.between(curve.mark(int(start_s * S)), curve.mark(int(end_s * S)))
        assert abs(energy_j - (truth_j(end_s) - truth_j(start_s))) <= bound_j, (start_s, end_s)
    # Beside the gap the samples hold.
    assert curve.between(curve.mark(S // 2), curve.mark(7 * S // 5))[1] < 20.0
    assert curve.between(curve.mark(S // 2), curve.mark(18 * S // 5))[1] < 30.0


def test_after_a_break_of_the_counter_its_step_is_in_doubt() -> None:
    curve = _curve()
    for i in range(201):
        curve.add(i * S // 50, 300.0)
    curve.anchor(0, half_ns=0, energy_j=0.0)
    curve.anchor(S, half_ns=0, energy_j=300.0)
    curve.anchor(2 * S, half_ns=0, energy_j=310.0, broken=True)
    curve.anchor(3 * S, half_ns=0, energy_j=610.0)
    energy_j, bound_j = curve.between(curve.mark(S // 2), curve.mark(5 * S // 2))
    assert abs(energy_j - 600.0) <= bound_j
    energy_j, bound_j = curve.between(curve.mark(S // 4), curve.mark(3 * S // 4))
    assert abs(energy_j - 150.0) <= bound_j < 20.0


def test_samples_that_beat_with_the_load_may_be_off_by_a_share_of_its_swing() -> None:
    """Their mean lies 1.3 % of the swing too high for five seconds, and as much too low for the next five."""
    swing_w, mean_w = 600.0, 400.0
    curve = _curve()
    for i in range(501):
        off_w = (0.013 if i < 250 else -0.013) * swing_w
        curve.add(i * S // 50, mean_w + off_w + swing_w / 2 * math.sin(math.tau * i / 20))
    curve.anchor(0, half_ns=0, energy_j=0.0)
    curve.anchor(10 * S, half_ns=0, energy_j=10 * mean_w)
    energy_j, bound_j = curve.between(curve.mark(S), curve.mark(5 * S))
    assert 25 < energy_j - 4 * mean_w <= bound_j < 60


def test_a_mean_hides_when_within_it_the_energy_was_drawn() -> None:
    curve = _curve()
    for i in range(101):
        curve.add(i * S // 50, 350.0)
    curve.anchor(0, half_ns=0, energy_j=0.0)
    curve.anchor(2 * S, half_ns=0, energy_j=700.0)
    # 20 of 40 ms at 700 W, all on one side of the instant or all on the other.
    assert curve.mark(S).error_j >= 0.040 * 700 / 8


def test_a_lag_that_is_not_as_stated_moves_a_swing_past_the_instant() -> None:
    def error_j(lag_s: float) -> float:
        curve = ShapeCurve(power_min_w=0.0, power_max_w=700.0, period_s=0.02, window_s=0.04, lag_s=lag_s)
        for i in range(101):
            curve.add(i * S // 50 + int(lag_s * S), 100.0 if i < 50 else 700.0)
        curve.anchor(S // 2, half_ns=0, energy_j=0.0)
        curve.anchor(3 * S // 2, half_ns=0, energy_j=400.0)
        return curve.mark(S).error_j

    assert error_j(0.030) - error_j(0.0) == pytest.approx(0.010 * 600)
