# SPDX-License-Identifier: Apache-2.0
"""A request to stop, turned into an exception, so that what was changed is put back on the way out."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """Somebody asked this process to stop. No `except Exception` of a workload may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


class Stopping:
    """Raises `Stopped` once, wherever the main thread is; after that, and once `over`, nothing is heard."""

    def __init__(self) -> None:
        self.over = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if not self.over:
            self.over = True
            raise Stopped(number)


@contextmanager
def stoppable() -> Iterator[Stopping]:
    """Inside, SIGINT and SIGTERM raise `Stopped`; the handlers found are put back on leaving."""
    stopping = Stopping()
    if threading.current_thread() is not threading.main_thread():
        yield stopping  # only the main thread may set handlers
        return
    before = {number: signal.signal(number, stopping.handle) for number in SIGNALS}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
