# SPDX-License-Identifier: Apache-2.0
"""A request to stop, for a run that only watches: it is heard while waiting, and nothing is torn."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Asked:
    """The signals that came."""

    def __init__(self, wake: tuple[int, int]) -> None:
        self.number = 0  # the first; 0 while nobody has asked
        self.count = 0
        self._read, self._write = wake

    def handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.number = self.number or number
        self.count += 1
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b"x")

    def wait(self, most_s: float) -> None:
        """Until `most_s` have passed, or one more signal comes."""
        until_s = time.monotonic() + most_s
        while (left_s := until_s - time.monotonic()) > 0:
            ready, _, _ = select.select([self._read], [], [], left_s)
            if ready:
                os.read(self._read, 64)
                return


@contextlib.contextmanager
def asked() -> Iterator[Asked]:
    """Inside, signals do not end this process but are kept; what was found is put back on leaving."""
    wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    request = Asked(wake)
    try:
        if threading.current_thread() is not threading.main_thread():
            yield request  # only the main thread may set handlers
            return
        # What this process was started to ignore (nohup) stays ignored.
        caught = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, request.handle) for number in caught}
        try:
            yield request
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    finally:
        for descriptor in wake:
            os.close(descriptor)
