# SPDX-License-Identifier: Apache-2.0
"""Signals go to the worker, also those that come while it is being started; asked twice, it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from joulelab.launch.signals import passed_on

STUBBORN = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_the_worker_is_up_is_passed_on(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with passed_on() as passing:
        os.kill(os.getpid(), number)
        worker = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, process_group=0)
        with worker:
            passing.to(worker)
            worker.wait()
    assert worker.returncode != 0
    assert passing.came == [number]
    assert signal.getsignal(number) is before


def test_asked_twice_a_stubborn_worker_is_ended() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, process_group=0
    ) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        with passed_on() as passing:
            passing.to(worker)
            os.kill(os.getpid(), signal.SIGTERM)
            assert worker.poll() is None
            os.kill(os.getpid(), signal.SIGTERM)
            worker.wait()
    assert worker.returncode == -signal.SIGKILL


def test_in_another_thread_nothing_is_changed() -> None:
    handlers: list[object] = []

    def inside() -> None:
        with passed_on():
            handlers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGTERM)]
