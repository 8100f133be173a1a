# SPDX-License-Identifier: Apache-2.0
"""Student's intervals against known values, and against their promise."""

from __future__ import annotations

import random

import pytest

from joulelab.analysis.student import change, half_width, mean, t_975


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


def test_a_difference_after_welch() -> None:
    # Variances of the means 4/2 = 2 and 1/3 of 3 values; freedom (2 + 1/3)^2 / (4/1 + 1/18) = 1.34, so 1.
    found, half = change([8.0, 10.828427], [4.0, 5.0, 6.0], share=False)
    assert found == pytest.approx(4.414214, abs=1e-5)
    assert half == pytest.approx(12.7062 * (2.0 + 1.0 / 3.0) ** 0.5, rel=1e-4)


def test_a_share_to_first_order() -> None:
    # 60 +- 1 against 100 +- 2 (of the means, from 3 values each): (1/100)^2 + (0.6 * 2/100)^2, freedom 3.87.
    mine = [60.0 - 3.0**0.5, 60.0, 60.0 + 3.0**0.5]
    theirs = [100.0 - 2.0 * 3.0**0.5, 100.0, 100.0 + 2.0 * 3.0**0.5]
    found, half = change(mine, theirs, share=True)
    assert found == pytest.approx(-0.4)
    assert half == pytest.approx(3.1824 * (0.01**2 + 0.012**2) ** 0.5, rel=1e-4)


def test_what_one_value_or_none_can_tell_of_a_change() -> None:
    assert change([50.0], [100.0, 100.0], share=True) == (-0.5, None)
    assert change([], [1.0], share=True) == (None, None)
    assert change([1.0], [0.0], share=True) == (None, None)
    assert change([2.0, 2.0], [1.0, 1.0], share=False) == (1.0, 0.0)


def test_no_change_is_mostly_inside_its_interval() -> None:
    generator = random.Random(11)
    inside = 0
    for _ in range(4000):
        mine, theirs = ([generator.gauss(10.0, sigma) for _ in range(3)] for sigma in (0.2, 0.4))
        found, half = change(mine, theirs, share=True)
        assert found is not None
        assert half is not None
        inside += abs(found) <= half
    # At least what it promises: rounding the degrees of freedom down widens it.
    assert inside / 4000 > 0.95 - 0.0105
