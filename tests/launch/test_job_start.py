# SPDX-License-Identifier: Apache-2.0
"""A job that begins: whether the trial is its own, decided on the node."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest

from joulelab.errors import InputError
from joulelab.launch import job_start
from joulelab.launch.job_note import JobNote, read_note, write_note
from joulelab.launch.job_start import NOT_MINE, begin, main
from joulelab.records import claim, store
from joulelab.records.layout import TrialFolder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOTE = JobNote(scheduler="slurm", job="12_3", name="demo-1a")


@pytest.fixture
def folder(weird_tmp_path: Path) -> TrialFolder:
    return TrialFolder(weird_tmp_path)


@pytest.fixture
def lock(folder: TrialFolder) -> Iterator[int]:
    with folder.turn.open("ab") as file:
        yield file.fileno()


def started(folder: TrialFolder, lock: int, note: JobNote = NOTE) -> tuple[int, list[str]]:
    said: list[str] = []
    return begin(folder, note, lock=lock, runner=os.getpid(), say=said.append), said


def elsewhere(folder: TrialFolder, *, job: str) -> None:
    """A claim of another machine, which is believed."""
    holder = msgspec.structs.replace(claim.this_process(), host="n2", job=job)
    store.write_json(folder.claim, holder)


def test_it_takes_its_trial(folder: TrialFolder, lock: int) -> None:
    write_note(folder, NOTE)
    folder.failed.write_text("{}")
    assert started(folder, lock) == (0, [])
    # What an earlier attempt left is out of the way, and who runs the trial can be seen.
    assert not folder.failed.exists()
    assert (folder.path / "attempts/1/failed.json").exists()
    holder = json.loads(folder.claim.read_text())
    assert (holder["pid"], holder["host"], holder["job"]) == (os.getpid(), socket.gethostname(), "12_3")
    assert claim.is_locked(folder)


def test_it_notes_itself_where_the_study_died_before_it_could(folder: TrialFolder, lock: int) -> None:
    assert started(folder, lock) == (0, [])
    assert read_note(folder) == NOTE


def test_another_job_has_the_trial(folder: TrialFolder, lock: int) -> None:
    write_note(folder, JobNote(scheduler="slurm", job="11_3", name="demo-1a"))
    code, said = started(folder, lock)
    assert (code, said) == (NOT_MINE, [f"slurm job 11_3 has {folder.path}, not job 12_3"])
    assert not folder.claim.exists()


def test_a_second_start_after_the_node_was_lost(folder: TrialFolder, lock: int) -> None:
    write_note(folder, NOTE)
    elsewhere(folder, job="12_3")
    assert claim.is_alive(folder)
    assert started(folder, lock) == (0, [])


@pytest.mark.parametrize("done", [True, False])
def test_somebody_ran_it_by_hand_meanwhile(folder: TrialFolder, lock: int, *, done: bool) -> None:
    write_note(folder, NOTE)
    if done:
        folder.done.touch()
    else:
        elsewhere(folder, job="")
    before = folder.claim.read_text() if folder.claim.exists() else ""
    code, said = started(folder, lock)
    assert (code, said) == (NOT_MINE, [f"{folder.path} is done, or another process runs it"])
    assert (folder.claim.read_text() if folder.claim.exists() else "") == before


def test_an_earlier_start_that_still_trains_is_waited_for(
    folder: TrialFolder, lock: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_start, "LOCK_S", 0.1)
    with folder.turn.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        code, said = started(folder, lock)
    assert code == NOT_MINE
    assert "did not end within 0.1 s" in said[0]
    assert started(folder, lock)[0] == 0


def test_a_descriptor_that_is_not_passed_on_is_no_reason_to_stop(folder: TrialFolder) -> None:
    assert started(folder, 987)[0] == 0


def test_the_command(folder: TrialFolder, lock: int) -> None:
    command = [sys.executable, "-P", "-m", "joulelab.launch.job_start", str(folder.path)]
    command += ["slurm", "12_3", "demo-1a", str(lock)]
    done = subprocess.run(command, pass_fds=(lock,), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    # The process that started it holds the trial, and the lock, after it has ended.
    assert json.loads(folder.claim.read_text())["pid"] == os.getpid()
    assert claim.is_locked(folder)
    folder.done.touch()
    done = subprocess.run(command, pass_fds=(lock,), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr[:10]) == (NOT_MINE, "joulelab: ")


def test_wrong_arguments() -> None:
    with pytest.raises(InputError, match="five arguments are wanted"):
        main(["a", "b"])
