# SPDX-License-Identifier: Apache-2.0
"""Where a sampler is found."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from joulelab.errors import RecordError
from joulelab.meter import runtime
from joulelab.meter.runtime import Runtime, Settings, home, job_key, private, shared, sweep


@pytest.fixture
def short_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files that nobody else uses. `tmp_path` may be too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="jl-", dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        assert home() == Path(folder)
        yield Path(folder)


def test_settings_survive_the_file(weird_tmp_path: Path) -> None:
    settings = Settings(owner=5, out=str(weird_tmp_path), devices=("a", "b:c"))
    Runtime(weird_tmp_path).write(settings)
    assert Runtime(weird_tmp_path).read() == settings


def test_a_private_folder_is_removed_with_its_own_files_only() -> None:
    folder = private()
    folder.lock.touch()
    folder.ring(1, 2).touch()
    folder.remove()
    assert not folder.path.exists()
    folder = private()
    (folder.path / "somebody's").touch()
    folder.lock.touch()
    folder.remove()
    assert [path.name for path in folder.path.iterdir()] == ["somebody's"]
    (folder.path / "somebody's").unlink()
    folder.path.rmdir()


def test_a_lock_is_held_by_one_and_void_after_removal() -> None:
    folder = private()
    with folder.locked() as alive:
        assert alive
        seen: list[bool] = []

        def wait() -> None:
            with folder.locked() as still:
                seen.append(still)

        waiter = threading.Thread(target=wait)
        waiter.start()
        waiter.join(0.05)
        assert waiter.is_alive()
        folder.remove()
    waiter.join()
    assert seen == [False]


def test_sockets_get_a_short_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert len(str(home())) <= runtime.LONGEST


def test_another_users_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "home", lambda: tmp_path)
    owner = shared("a key").path.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(RecordError, match="belongs to somebody else"):
        shared("a key")


def test_jobs_are_told_apart() -> None:
    elastic = {"TORCHELASTIC_RUN_ID": "none", "MASTER_PORT": "29500", "MASTER_ADDR": "localhost"}
    key = job_key(elastic, out="/a", devices=())
    assert key
    assert key == job_key(dict(elastic), out="/a", devices=())
    assert key != job_key({**elastic, "MASTER_PORT": "29501"}, out="/a", devices=())
    assert key != job_key(elastic, out="/b", devices=())
    assert job_key({"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"}, out="", devices=())
    assert not job_key({"SLURM_JOB_ID": "1"}, out="", devices=())
    assert not job_key({}, out="", devices=())


def test_what_the_killed_left_is_swept_and_the_living_are_not(
    short_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, living, starting, elsewhere, foreign = (private() for _ in range(5))
    for made in (dead, living, starting):
        made.write(Settings(owner=1))
        made.ring(1, 0).touch()
    elsewhere.write(Settings(owner=1, host="another"))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(living.socket))
    listener.listen()
    with starting.locked():
        sweep()
    listener.close()
    assert not dead.path.exists()
    assert all(kept.path.exists() for kept in (living, starting, elsewhere, foreign))
