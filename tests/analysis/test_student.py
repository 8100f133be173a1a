# SPDX-License-Identifier: Apache-2.0
"""Student's intervals against known values, and against their promise."""

from __future__ import annotations

import random

import pytest

from joulelab.analysis.student import half_width, mean, t_975


@pytest.mark.parametrize(
    ("freedom", "t"), [(1, 12.706), (2, 4.303), (9, 2.262), (30, 2.042), (60, 2.0003), (1000, 1.9623)]
)
def test_quantiles(freedom: int, t: float) -> None:
    assert t_975(freedom) == pytest.approx(t, abs=0.0006)


def test_the_table_and_the_expansion_meet() -> None:
    assert t_975(31) == pytest.approx(2.0395, abs=0.0001)
    assert t_975(30) > t_975(31) > t_975(32)


def test_one_value_tells_no_spread() -> None:
    assert half_width([3.0]) is None
    assert half_width([]) is None
    assert mean([]) is None


def test_two_values() -> None:
    # sd = sqrt(2), over sqrt(2), times 12.706
    assert half_width([1.0, 3.0]) == pytest.approx(12.706, abs=0.001)


def test_covers_the_truth_in_95_of_100_cases() -> None:
    generator = random.Random(7)
    inside = 0
    for _ in range(4000):
        values = [generator.gauss(10.0, 2.0) for _ in range(3)]
        middle, half = mean(values), half_width(values)
        assert middle is not None
        assert half is not None
        inside += abs(middle - 10.0) <= half
    # Three standard deviations of a share of 0.95 in 4,000.
    assert inside / 4000 == pytest.approx(0.95, abs=0.0105)
