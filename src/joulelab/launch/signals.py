# SPDX-License-Identifier: Apache-2.0
"""While a worker runs, signals that would end this process go to it, and it ends its trial in order."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from types import FrameType

# What each signal is for the worker: a closed terminal is a request to end.
PASSED_ON = {
    signal.SIGINT: signal.SIGINT,
    signal.SIGTERM: signal.SIGTERM,
    signal.SIGHUP: signal.SIGTERM,
}


class Passing:
    """The signals that came, and the worker that they go to once it has started."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None

    def to(self, process: subprocess.Popen[bytes]) -> None:
        """The worker has started; a signal that came while it was being started is for it."""
        self._process = process
        if self.came:
            process.send_signal(PASSED_ON[signal.Signals(self.came[0])])

    def handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.came.append(number)
        if self._process is None:
            return
        if len(self.came) == 1:
            self._process.send_signal(PASSED_ON[signal.Signals(number)])
        else:
            # Asked twice: a worker that does not end in order is ended.
            self._process.kill()


@contextlib.contextmanager
def passed_on() -> Iterator[Passing]:
    """Inside, signals do not end this process but are kept and passed on."""
    passing = Passing()
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may set handlers; whoever runs trials in another keeps its own way of stopping.
        yield passing
        return
    before = {number: signal.signal(number, passing.handle) for number in PASSED_ON}
    try:
        yield passing
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
