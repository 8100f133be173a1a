# SPDX-License-Identifier: Apache-2.0
"""A bar by a clock that the test moves."""

from __future__ import annotations

import io

from joulelab.report import bar


class Clock:
    now_s = 5.0

    def __call__(self) -> float:
        return self.now_s


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_where_nobody_watches() -> None:
    clock, file = Clock(), io.StringIO()
    with bar.live("nt3", file=file, clock=clock) as show:
        show(1, 200)
        show(50, 200)
        clock.now_s += bar.PLAIN_EVERY_S
        show(100, 200)
        show(101, 200)
        show(200, 200)
    assert file.getvalue().splitlines() == ["nt3: 0 %", "nt3: 50 %", "nt3: 100 %"]


def test_a_bar_on_a_terminal() -> None:
    clock, file = Clock(), Terminal()
    with bar.live("nt3 [odd] name", file=file, clock=clock) as show:
        show(1, 4)
        clock.now_s += bar.REDRAW_EVERY_S
        show(3, 4)
    assert "nt3 [odd] name" in file.getvalue()
    assert "75%" in file.getvalue()
