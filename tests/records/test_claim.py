# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest

from joulelab.records import claim, store
from joulelab.records.layout import TrialFolder
from joulelab.records.process import started

if TYPE_CHECKING:
    from pathlib import Path

TAKE = """
import sys
from pathlib import Path
from joulelab.records import claim
from joulelab.records.layout import TrialFolder
from joulelab.records.process import started
print(claim.take(TrialFolder(Path(sys.argv[1]))), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(weird_tmp_path: Path) -> TrialFolder:
    return TrialFolder(weird_tmp_path)


def taker(folder: TrialFolder) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", TAKE, str(folder.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_only_one_of_many_takes_a_trial(folder: TrialFolder) -> None:
    processes = [taker(folder) for _ in range(4)]
    answers = [process.stdout.readline().strip() for process in processes if process.stdout]
    for process in processes:
        process.communicate("")
    assert sorted(answers) == ["False", "False", "False", "True"]


def test_a_claim_ends_with_its_holder(folder: TrialFolder) -> None:
    process = taker(folder)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "True"
    assert claim.is_alive(folder)
    assert not claim.take(folder)
    process.kill()
    process.communicate()
    assert not claim.is_alive(folder)
    assert claim.take(folder)
    claim.release(folder)
    assert not folder.claim.exists()


def test_a_process_number_used_again_is_another_process(folder: TrialFolder) -> None:
    mine = claim.this_process()
    store.write_json(folder.claim, msgspec.structs.replace(mine, started="1"))
    assert not claim.is_alive(folder)
    store.write_json(folder.claim, msgspec.structs.replace(mine, boot="another boot"))
    assert not claim.is_alive(folder)
    store.write_json(folder.claim, msgspec.structs.replace(mine, host="another-host", boot="another boot"))
    assert claim.is_alive(folder)


def test_a_done_trial_is_never_taken(folder: TrialFolder) -> None:
    folder.done.touch()
    assert not claim.take(folder)


def test_a_lock_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with claim.locked(path):
        descriptor = os.open(path, os.O_RDWR)  # as another process would: locks belong to open files
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


def test_who_has_ended_holds_nothing_though_nobody_has_waited_for_it() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert started(process.pid) != ""
    assert process.stdin is not None
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and its number is still taken
    assert started(process.pid) == ""
    process.wait()
