# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from joulelab.errors import InputError
from joulelab.records.measurement import Measurement

ONE = Measurement(
    time_s=2.0,
    energy_j=10.0,
    energy_error_j=1.0,
    energy_j_by_device={"a": 6.0, "b": 4.0},
    power_w=5.0,
    resolution_s=0.1,
    flags=("x",),
)


def test_sums_add_times_energies_and_bounds() -> None:
    two = Measurement(
        time_s=3.0, energy_j=5.0, energy_error_j=0.5, energy_j_by_device={"a": 5.0}, flags=("x", "y")
    )
    total = ONE + two
    assert (total.time_s, total.energy_j, total.energy_error_j, total.power_w) == (5.0, 15.0, 1.5, 3.0)
    assert total.energy_j_by_device == {"a": 11.0, "b": 4.0}
    assert total.flags == ("x", "y")
    assert total.resolution_s == 0.1
    assert ONE.energy_j_by_device == {"a": 6.0, "b": 4.0}  # the parts stay as they were


def test_sum_adds_them_up() -> None:
    assert sum([ONE, ONE]) == ONE + ONE
    with pytest.raises(TypeError):
        1 + ONE


def test_sources_are_not_added_up() -> None:
    with pytest.raises(InputError, match=r"'counter' and 'estimated'"):
        ONE + Measurement(time_s=1.0, energy_j=1.0, energy_error_j=0.1, source="estimated")


def test_an_unknown_energy_makes_the_sum_unknown() -> None:
    total = ONE + Measurement(time_s=1.0, energy_j=None, energy_error_j=None)
    assert total.energy_j is None
    assert total.power_w is None
    assert math.isinf(total.relative_error())


def test_where_there_is_no_energy_its_source_hinders_nothing() -> None:
    lost = Measurement(time_s=1.0, energy_j=None, energy_error_j=None, flags=("the sampler does not answer",))
    known = Measurement(time_s=1.0, energy_j=1.0, energy_error_j=0.1, source="estimated")
    for both in (lost + known, known + lost):
        assert (both.time_s, both.energy_j, both.source) == (2.0, None, "estimated")


def test_it_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ONE.energy_j = 1.0  # type: ignore[misc]


def test_what_is_left_when_a_part_is_taken_away() -> None:
    part = Measurement(
        time_s=0.5, energy_j=4.0, energy_error_j=0.5, energy_j_by_device={"a": 4.0}, flags=("y",)
    )
    left = ONE.less(part)
    assert (left.time_s, left.energy_j, left.energy_error_j, left.power_w) == (1.5, 6.0, 1.5, 4.0)
    assert left.energy_j_by_device == {"a": 2.0, "b": 4.0}
    assert left.flags == ("x", "y")
    assert (left + part).energy_j == ONE.energy_j


@pytest.mark.parametrize(
    "part",
    [
        Measurement(time_s=0.5, energy_j=None, energy_error_j=None),
        Measurement(time_s=0.5, energy_j=4.0, energy_error_j=0.5, source="estimated"),
    ],
)
def test_what_is_left_is_not_known_where_the_part_is_not_or_is_of_another_kind(part: Measurement) -> None:
    left = ONE.less(part)
    assert (left.time_s, left.energy_j, left.energy_error_j, left.power_w) == (1.5, None, None, None)
