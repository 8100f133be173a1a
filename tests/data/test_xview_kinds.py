# SPDX-License-Identifier: Apache-2.0
"""The table of kinds is whole."""

from __future__ import annotations

from joulelab.data.xview_kinds import KINDS, chosen


def test_sixty_kinds_between_11_and_94() -> None:
    numbers = [kind.number for kind in KINDS]
    assert len(numbers) == len(set(numbers)) == 60
    assert numbers == sorted(numbers)
    assert (numbers[0], numbers[-1]) == (11, 94)
    assert not {75, 82} & set(numbers)
    assert sum(kind.count for kind in KINDS) == 596_154
    assert len({kind.name for kind in KINDS}) == 60


def test_the_most_frequent_in_the_order_of_the_table() -> None:
    assert chosen(0) == KINDS
    assert [kind.name for kind in chosen(3)] == ["Small Car", "Truck", "Building"]
    assert chosen(1)[0].number == 73
    assert chosen(60) == KINDS
