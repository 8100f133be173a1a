# SPDX-License-Identifier: Apache-2.0
"""Work beside the training: one piece at a time, and its failures are words."""

from __future__ import annotations

import threading

import pytest

from joulelab.train.checkpoint_writer import Writer


def test_one_at_a_time() -> None:
    go, done = threading.Event(), []
    writer = Writer(say=pytest.fail)

    def work() -> None:
        go.wait()
        done.append(threading.current_thread().name)

    assert not writer.busy
    writer.start(work)
    assert writer.busy
    with pytest.raises(AssertionError, match="two checkpoints at once"):
        writer.start(work)
    go.set()
    writer.wait()
    assert not writer.busy
    assert done == ["checkpoint"]


def test_a_disk_that_does_not_answer_is_not_waited_for_without_end() -> None:
    go = threading.Event()
    writer = Writer(say=pytest.fail)

    def work() -> None:
        go.wait()

    writer.start(work)
    writer.wait(limit_s=0.01)
    assert writer.busy
    go.set()
    writer.wait()
    assert not writer.busy


def test_a_failure_is_said_and_the_next_is_tried() -> None:
    said: list[str] = []
    writer = Writer(say=said.append)

    def fail() -> None:
        raise OSError(28, "No space left on device")

    writer.start(fail)
    writer.wait()
    assert said == [
        "no checkpoint was written, and the training goes on: OSError: [Errno 28] No space left on device"
    ]
    writer.start(lambda: said.append("written"))
    writer.wait()
    assert said[1:] == ["written"]
