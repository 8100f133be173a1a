# SPDX-License-Identifier: Apache-2.0
"""A trial's lock is held for as long as its runner or its worker lives."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from joulelab.errors import RecordError
from joulelab.launch.turn import machine_turn, turn, wait_for_turn
from joulelab.records.layout import StudyFolder, TrialFolder

if TYPE_CHECKING:
    from pathlib import Path


def test_one_at_a_time(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    with turn(folder) as mine:
        assert mine is not None
        with turn(folder) as other:
            assert other is None
    with turn(folder) as again:
        assert again is not None
    wait_for_turn(folder)


def test_a_worker_that_inherited_it_keeps_it(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    with turn(folder) as mine:
        assert mine is not None
        worker = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(mine,), process_group=0
        )
    with worker:
        with turn(folder) as other:
            assert other is None
        worker.communicate(b"\n")
        wait_for_turn(folder)
    with turn(folder) as free:
        assert free is not None


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be opened"), turn(TrialFolder(tmp_path / "none")):
        pass


def test_a_machine_is_for_one_trial_at_a_time_unless_devices_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    waited: list[str] = []
    code = "import sys; sys.stdin.readline()"
    with machine_turn(StudyFolder(tmp_path), on_wait=lambda: waited.append("first")) as mine:
        worker = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, pass_fds=(mine,), process_group=0
        )
        with monkeypatch.context() as other:
            other.setenv("CUDA_VISIBLE_DEVICES", "1")
            with machine_turn(StudyFolder(tmp_path), on_wait=lambda: waited.append("other device")):
                pass
    assert waited == []
    # The worker outlives its runner; who comes next says so, and waits for it.
    with worker, machine_turn(StudyFolder(tmp_path), on_wait=lambda: end(worker, waited)):
        assert worker.poll() == 0 or worker.wait() == 0
    assert waited == ["ended"]


def end(worker: subprocess.Popen[bytes], waited: list[str]) -> None:
    waited.append("ended")
    worker.communicate(b"\n")
