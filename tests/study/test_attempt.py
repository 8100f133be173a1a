# SPDX-License-Identifier: Apache-2.0
"""An attempt is marked whatever happens to it, and its claim never stays."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from joulelab.errors import TrialError
from joulelab.launch.launcher import Launcher, Stopped
from joulelab.launch.progress import OnStep, ignore
from joulelab.launch.turn import turn
from joulelab.records import claim
from joulelab.records.layout import TrialFolder
from joulelab.study.attempt import attempt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Scripted(Launcher):
    """Leaves a log, then returns or raises what it was given."""

    def __init__(self, ends: int | BaseException, *, log: str = "", done: bool = False) -> None:
        self.ends, self.log, self.done, self.runs = ends, log, done, 0

    def run(self, folder: TrialFolder, *, on_progress: OnStep = ignore, inherit: Sequence[int] = ()) -> int:
        self.runs += 1
        assert claim.is_alive(folder)
        assert len(inherit) == 1
        folder.log.write_text(self.log)
        if self.done:
            folder.done.touch()
        if isinstance(self.ends, BaseException):
            raise self.ends
        return self.ends


def failure(folder: TrialFolder) -> tuple[str, str, int]:
    said = json.loads(folder.failed.read_text())
    return said["state"], said["reason"], said["exit_code"]


@pytest.mark.parametrize(
    ("exit_code", "log", "reason"),
    [
        (3, "", "exit status 3"),
        (1, "Traceback\nKeyError: 'x'\nlast print", "exit status 1: KeyError: 'x'"),
        (2, "one\ntwo\n", "exit status 2: two"),
        (-11, "", "ended by SIGSEGV"),
        (-9, "", "killed by SIGKILL, most often because memory ran out: try a smaller batch"),
        (0, "", "ended without a result"),
    ],
)
def test_reasons(tmp_path: Path, exit_code: int, log: str, reason: str) -> None:
    folder = TrialFolder(tmp_path)
    assert attempt(folder, launcher=Scripted(exit_code, log=log))
    assert failure(folder) == ("failed", reason, exit_code)
    assert not folder.claim.exists()


def test_the_record_decides_and_not_the_exit_status(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    assert attempt(folder, launcher=Scripted(1, done=True))
    assert not folder.failed.exists()


@pytest.mark.parametrize(("stop", "code"), [(Stopped(15), 143), (KeyboardInterrupt(), 130)])
def test_a_stop_is_marked_and_passed_on(tmp_path: Path, stop: BaseException, code: int) -> None:
    folder = TrialFolder(tmp_path)
    with pytest.raises(type(stop)):
        attempt(folder, launcher=Scripted(stop))
    assert failure(folder) == ("interrupted", "stopped on request", code)
    assert not folder.claim.exists()


def test_a_launcher_that_cannot_start_leaves_the_trial_free(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    with pytest.raises(TrialError):
        attempt(folder, launcher=Scripted(TrialError("no memory")))
    assert not folder.claim.exists()
    with turn(folder) as free:
        assert free is not None


def test_done_or_taken_trials_are_left_alone(tmp_path: Path) -> None:
    folder, launcher = TrialFolder(tmp_path), Scripted(0)
    with turn(folder):
        assert not attempt(folder, launcher=launcher)
    folder.done.touch()
    assert not attempt(folder, launcher=launcher)
    assert launcher.runs == 0
