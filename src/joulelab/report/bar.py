# SPDX-License-Identifier: Apache-2.0
"""How far a long job is: a bar on a terminal, elsewhere a line now and then. Both go to stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

Show = Callable[[int, int], None]

PLAIN_EVERY_S = 15.0
REDRAW_EVERY_S = 0.1


@contextlib.contextmanager
def live(
    title: str, *, file: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[Show]:
    """What to call with the steps done and the steps in all."""
    to = file or sys.stderr
    if not to.isatty():
        yield _sparing(lambda done, total: _line(to, title, done, total), every_s=PLAIN_EVERY_S, clock=clock)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    console = Console(file=to, highlight=False, emoji=False, markup=False)
    with Progress(*columns, console=console, auto_refresh=False, transient=True, get_time=clock) as display:
        task = display.add_task(title, total=None)

        def draw(done: int, total: int) -> None:
            display.update(task, completed=done, total=total, refresh=True)

        yield _sparing(draw, every_s=REDRAW_EVERY_S, clock=clock)


def _line(to: TextIO, title: str, done: int, total: int) -> None:
    to.write(f"{title}: {100 * done / max(total, 1):.0f} %\n")
    to.flush()


def _sparing(show: Show, *, every_s: float, clock: Callable[[], float]) -> Show:
    """`show`, called at the first step, at the last, and between them no more often than `every_s`."""
    next_s = clock()

    def maybe(done: int, total: int) -> None:
        nonlocal next_s
        if done >= total or clock() >= next_s:
            next_s = clock() + every_s
            show(done, total)

    return maybe
