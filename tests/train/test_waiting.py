# SPDX-License-Identifier: Apache-2.0
"""What is counted is the time in the source, and not that of whoever uses what it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from joulelab.train.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Iterator


class Clock:
    now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def pass_(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


def test_adds_up_over_epochs_and_leaves_out_the_user() -> None:
    clock = Clock()
    waiting = Waiting(clock)

    def source() -> Iterator[int]:
        clock.pass_(1.0)  # opening
        yield 1
        clock.pass_(0.25)
        yield 2
        clock.pass_(0.5)  # closing

    for _ in range(2):
        seen = []
        for item in waiting.over(source()):
            clock.pass_(10.0)
            seen.append(item)
        assert seen == [1, 2]
    assert waiting.time_s == pytest.approx(3.5)


def test_an_epoch_that_is_left_early_keeps_what_was_waited() -> None:
    clock = Clock()
    waiting = Waiting(clock)

    def source() -> Iterator[int]:
        while True:
            clock.pass_(1.0)
            yield 0

    for _ in waiting.over(source()):
        break
    assert waiting.time_s == pytest.approx(1.0)


def test_goes_on_from_what_was_waited_before() -> None:
    clock = Clock()
    waiting = Waiting(clock)
    waiting.restore(1.5)

    def source() -> Iterator[int]:
        clock.pass_(0.25)
        yield 1

    assert list(waiting.over(source())) == [1]
    assert waiting.time_s == pytest.approx(1.75)
