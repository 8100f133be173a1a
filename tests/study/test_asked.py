# SPDX-License-Identifier: Apache-2.0
"""A signal wakes whoever waits, ends nothing, and leaves the handlers as they were."""

from __future__ import annotations

import os
import signal
import threading
import time

from joulelab.study.asked import SIGNALS, Asked, asked


def test_a_signal_ends_the_waiting_and_is_counted() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with asked() as request:
        request.wait(0.0)
        assert (request.number, request.count) == (0, 0)
        began_s = time.monotonic()
        os.kill(os.getpid(), signal.SIGTERM)
        request.wait(30.0)
        os.kill(os.getpid(), signal.SIGINT)
        request.wait(30.0)
        assert time.monotonic() - began_s < 10.0
        assert (request.number, request.count) == (signal.SIGTERM, 2)
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_what_is_ignored_stays_ignored_and_other_threads_set_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with asked():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    seen: list[Asked] = []

    def beside() -> None:
        with asked() as request:
            request.wait(0.0)
            seen.append(request)

    thread = threading.Thread(target=beside)
    thread.start()
    thread.join()
    assert seen[0].number == 0
