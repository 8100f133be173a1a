# SPDX-License-Identifier: Apache-2.0
"""Who still has to be told their figures when the meter closes."""

from __future__ import annotations

from joulelab.meter.meter import Meter
from joulelab.meter.unread import LEAST, Unread
from joulelab.meter.window import Window
from joulelab.records.measurement import Measurement


def window(number: int) -> Window:
    made = Window(Meter(), "w", synchronize=False)
    made.number = number
    return made


def test_only_who_is_held_and_has_not_read_is_told() -> None:
    unread = Unread()
    held, read = window(1), window(2)
    for each in (held, read, window(3)):
        unread.add(each)
    del each
    read.settle(Measurement(time_s=1.0, energy_j=1.0, energy_error_j=0.1))
    assert unread.take() == {1: held}
    assert unread.take() == {}


def test_what_was_let_go_takes_no_room() -> None:
    unread = Unread()
    held = [window(number) for number in range(1, 11)]
    for each in held:
        unread.add(each)
    for _ in range(5 * LEAST):
        unread.add(window(99))
    assert len(unread._references) <= LEAST + 1
    assert sorted(unread.take()) == list(range(1, 11))


def test_many_that_are_held_are_all_kept() -> None:
    unread = Unread()
    held = [window(number) for number in range(1, 3 * LEAST)]
    for each in held:
        unread.add(each)
    assert len(unread.take()) == len(held)
