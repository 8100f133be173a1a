# SPDX-License-Identifier: Apache-2.0
"""Wraps, resets, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.meter.counter import Unwrapped

S = 1_000_000_000


@given(st.lists(st.floats(0.001, 99.0), min_size=1, max_size=50))
def test_any_number_of_wraps_loses_nothing(steps_j: list[float]) -> None:
    total = Unwrapped(range_j=100.0, power_max_w=100.0)
    value_j = 42.0
    total.see(0, value_j)
    for i, step_j in enumerate(steps_j, start=1):
        value_j += step_j
        assert total.see(i * S, value_j % 100.0)
    assert total.total_j == pytest.approx(sum(steps_j))
    assert total.jumps == 0


def test_a_counter_that_stands_has_not_moved() -> None:
    total = Unwrapped(range_j=None, power_max_w=100.0)
    assert not total.see(0, 5.0)
    assert not total.see(S, 5.0)
    assert total.see(2 * S, 6.0)
    assert total.total_j == 1.0


@pytest.mark.parametrize("range_j", [None, 65536.0])
def test_a_reset_is_no_energy(range_j: float | None) -> None:
    total = Unwrapped(range_j=range_j, power_max_w=100.0)
    total.see(0, 30_000.0)
    total.see(S, 0.0)
    total.see(2 * S, 80.0)
    assert total.total_j == 80.0
    assert total.jumps == 1
    assert total.wraps == 0


def test_a_counter_read_too_late_may_have_wrapped_once_more() -> None:
    counter = Unwrapped(range_j=1000.0, power_max_w=700.0)
    counter.see(0, 0.0)
    counter.see(1_000_000_000, 600.0)
    assert not counter.broken
    counter.see(6_000_000_000, 900.0)  # five seconds at up to 700 W: 300, 1300, 2300 or 3300 J
    assert counter.broken
    assert counter.unsure == 1
    counter.see(6_500_000_000, 900.0)
    assert not counter.broken
    # As many rounds as to come back to the same value look like standing still.
    assert not counter.see(9_000_000_000, 900.0)
    assert counter.broken


def test_a_reset_breaks_the_step() -> None:
    counter = Unwrapped(range_j=None, power_max_w=700.0)
    counter.see(0, 500.0)
    counter.see(100_000_000, 10.0)
    assert counter.broken
