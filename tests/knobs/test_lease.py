# SPDX-License-Identifier: Apache-2.0
"""The note of what was found: whole or not there, locked, and told from that of another machine."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from joulelab.errors import RecordError
from joulelab.knobs import lease as lease_module
from joulelab.knobs.lease import Lease, LeaseFolder, lease_folder

LEASE = Lease(
    vendor="nvidia",
    argument="GPU-1",
    uid="gpu:GPU-1",
    name="a card",
    asked_w=400.0,
    found={"limit_mw": 500_000},
    asked={"limit_mw": 400_000},
    trial="runs/it's a trial",
)


def mine() -> Lease:
    return LEASE.by_this_process()


def test_what_is_written_is_read(weird_tmp_path: Path) -> None:
    folder = LeaseFolder(weird_tmp_path / "leases")
    assert folder.leases() == []
    folder.write(mine())
    assert folder.leases() == [mine()] == [folder.read("gpu:GPU-1")]
    assert folder.is_mine("gpu:GPU-1")
    assert [path.name for path in folder.path.iterdir()] == ["gpu-GPU-1.json"], "nothing beside it"
    assert folder.path.stat().st_mode & 0o777 == 0o700
    folder.remove(dataclasses.replace(mine(), pid=1))
    assert folder.leases(), "another's lease is not removed"
    folder.remove(mine())
    assert folder.leases() == []


def test_who_holds_it() -> None:
    assert mine().holder_lives()
    assert not dataclasses.replace(mine(), started="1").holder_lives(), "a later process with this number"
    assert "runs/it's a trial" in mine().holder()
    yesterday = dataclasses.replace(mine(), boot="of yesterday")
    assert yesterday.is_here()
    assert yesterday.is_outlived()
    assert not yesterday.holder_lives()
    elsewhere = dataclasses.replace(yesterday, host="another")
    assert not elsewhere.is_here()
    # A container may bear another name: the start of the machine tells that it is this one.
    assert dataclasses.replace(mine(), host="a-container").is_here()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"vendor": 1}', "null"])
def test_a_torn_or_strange_file_is_told_apart(tmp_path: Path, text: str) -> None:
    (tmp_path / "gpu-1.json").write_text(text, encoding="utf-8")
    folder = LeaseFolder(tmp_path)
    assert folder.leases() == []
    assert folder.damaged() == [tmp_path / "gpu-1.json"]


def test_values_that_are_no_numbers_are_not_carried_out(tmp_path: Path) -> None:
    folder = LeaseFolder(tmp_path)
    folder.write(dataclasses.replace(mine(), found={"limit_mw": "500; reboot"}))  # type: ignore[dict-item]
    assert folder.leases() == []


def test_one_process_at_a_time(tmp_path: Path) -> None:
    folder = LeaseFolder(tmp_path)
    code = (
        "import sys, pathlib\nfrom joulelab.knobs.lease import LeaseFolder\n"
        "with LeaseFolder(pathlib.Path(sys.argv[1])).lock('gpu:1') as got: print(got)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with folder.lock("gpu:1") as got:
        assert got
        assert subprocess.check_output(command, text=True) == "False\n"
    assert subprocess.check_output(command, text=True) == "True\n"


def test_whoever_waits_says_for_whom(tmp_path: Path) -> None:
    folder = LeaseFolder(tmp_path)
    code = (
        "import os, sys, pathlib\nfrom joulelab.knobs.lease import LeaseFolder\n"
        "with LeaseFolder(pathlib.Path(sys.argv[1])).lock('gpu:1'):\n"
        "    print('locked', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == "locked\n"
    said: list[Lease | None] = []

    def waiting(lease: Lease | None) -> None:
        said.append(lease)
        threading.Timer(0.05, holder.communicate).start()

    folder.write(dataclasses.replace(mine(), uid="gpu:1"))
    with folder.lock("gpu:1", waiting=waiting) as got:
        assert got
        holder.wait(10)
    assert [lease and lease.uid for lease in said] == ["gpu:1"]


def test_a_child_that_outlives_its_parent_does_not_keep_the_lock(tmp_path: Path) -> None:
    code = (
        "import os, sys, time, pathlib\nfrom joulelab.knobs.lease import LeaseFolder\n"
        "with LeaseFolder(pathlib.Path(sys.argv[1])).lock('gpu:1'):\n"
        "    child = os.fork()\n"
        "    if not child: time.sleep(30)\n"
        "    print(child, flush=True); os._exit(0)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
    try:
        with LeaseFolder(tmp_path).lock("gpu:1") as got:
            assert got
    finally:
        os.kill(child, 9)


def test_where_the_leases_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert lease_folder().path == Path("/run/joulelab")
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    monkeypatch.setattr(lease_module, "SYSTEM", tmp_path / "none")
    assert lease_folder().path == Path("/var/tmp/joulelab-1234")
    monkeypatch.setattr(lease_module, "SYSTEM", tmp_path)
    assert lease_folder().path == tmp_path, "an administrator has made it for all"
    monkeypatch.setenv("JOULELAB_LEASES", str(tmp_path / "mine"))
    assert lease_folder().path == tmp_path / "mine"


def test_a_folder_that_others_may_change_is_not_trusted(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(RecordError, match="only this user and root can change"):
        LeaseFolder(open_to_all).make()
    open_to_all.chmod(0o1777)  # with the sticky bit nobody removes or replaces another's file
    LeaseFolder(open_to_all).make()
    link = tmp_path / "link"
    link.symlink_to(open_to_all)
    with pytest.raises(RecordError, match="only this user and root"):
        LeaseFolder(link).make()


def test_no_folder_no_cap(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot be made"):
        LeaseFolder(tmp_path / "file" / "leases").write(mine())
