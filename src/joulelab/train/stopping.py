# SPDX-License-Identifier: Apache-2.0
"""A request to stop, turned into an exception, so that what was changed is put back on the way out."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

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
    """Raises `Stopped` once, wherever the main thread is; after that, and once `over`, nothing is heard.

    While somebody has `patience_s`, the first request is only kept in `asked`, and whoever sees it there ends
    in order and calls `stop`. When the patience is used up, or at the second request, it is raised after all.
    """

    def __init__(self) -> None:
        self.over = False
        self.patience_s = 0.0
        self.asked = 0  # the signal that waits to be obeyed
        self._timer: threading.Timer | None = None

    def handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.over:
            return
        if self.patience_s and not self.asked:
            self.asked = number
            self._timer = threading.Timer(self.patience_s, os.kill, (os.getpid(), number))
            self._timer.daemon = True
            self._timer.start()
            return
        self.stop(number)

    def stop(self, number: int = 0) -> NoReturn:
        """Obey the request that waits, or this one."""
        self.over = True
        self.forget()
        raise Stopped(self.asked or number)

    def forget(self) -> None:
        """No second request comes from here."""
        if self._timer is not None:
            self._timer.cancel()


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
        stopping.forget()
        for number, handler in before.items():
            signal.signal(number, handler)
