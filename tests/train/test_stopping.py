# SPDX-License-Identifier: Apache-2.0
"""A signal becomes one exception, and the handlers found are put back."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from joulelab.train.stopping import Stopped, stoppable


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_raises_once_and_puts_back(number: signal.Signals, exit_code: int) -> None:
    before = signal.getsignal(number)
    cleaned_up = []

    def stopped_at_work() -> None:
        try:
            os.kill(os.getpid(), number)
            signal.pause()
        finally:
            os.kill(os.getpid(), number)  # an impatient second one does not break the cleaning up
            cleaned_up.append("yes")

    with stoppable(), pytest.raises(Stopped, match=number.name) as caught:
        stopped_at_work()
    assert caught.value.exit_code == exit_code
    assert cleaned_up
    assert signal.getsignal(number) is before


def test_is_not_heard_once_it_is_over() -> None:
    with stoppable() as stopping:
        stopping.over = True
        os.kill(os.getpid(), signal.SIGTERM)


def test_outside_the_main_thread_handlers_are_left_alone() -> None:
    seen = []

    def look() -> None:
        with stoppable():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]
