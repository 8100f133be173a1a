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


def test_who_has_patience_hears_the_first_request_and_stops_in_order() -> None:
    with stoppable() as stopping:
        stopping.patience_s = 60.0
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.asked == signal.SIGTERM
        with pytest.raises(Stopped, match="SIGTERM"):
            stopping.stop()
        os.kill(os.getpid(), signal.SIGTERM)  # it is over
    timer = stopping._timer
    assert timer is not None
    timer.join(10.0)
    assert not timer.is_alive(), "nobody asks a second time"


def test_a_second_request_is_obeyed_at_once() -> None:
    with stoppable() as stopping:
        stopping.patience_s = 60.0
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Stopped, match="SIGINT"):
            os.kill(os.getpid(), signal.SIGTERM)


def test_patience_ends() -> None:
    with stoppable() as stopping:
        stopping.patience_s = 0.01
        with pytest.raises(Stopped, match="SIGTERM"):
            _ask_and_do_not_listen()


def _ask_and_do_not_listen() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(30.0)
