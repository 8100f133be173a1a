# SPDX-License-Identifier: Apache-2.0
"""The process, and what it costs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from joulelab.hardware.find import find
from joulelab.meter.book import Entry, Figures
from joulelab.meter.client import Client
from joulelab.meter.meter import Meter
from joulelab.meter.runtime import Settings, private
from joulelab.meter.sampler import Sampler, _serve
from tests.meter.conftest import fakes
from tests.meter.test_meter import gone


def test_the_sampler_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "for name in ('torch', 'numpy', 'msgspec', 'polars', 'pandas', 'rich', 'typer'):\n"
        "    sys.modules[name] = None\n"
        "import joulelab.meter.sampler\n"
        "from joulelab.hardware.find import find\n"
        "find(('fake',))\n"
        "names = {'asyncio', 'subprocess', 'unittest', 'multiprocessing', 'logging', 'http', 'email'}\n"
        "heavy = names & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_eight_cards_cost_little(tmp_path: Path) -> None:
    with Meter(devices=[fakes(tmp_path, {"count": 8})], out=tmp_path / "trial") as meter:
        pid = meter.open().pid
        assert len(meter.device_list()) == 8
        time.sleep(0.5)
        before_s, began = _cpu_s(pid), time.monotonic()
        time.sleep(2.5)
        share = (_cpu_s(pid) - before_s) / (time.monotonic() - began)
        status = Path(f"/proc/{pid}/status").read_text()
    resident_kb = int(status.partition("VmRSS:")[2].split()[0])
    assert resident_kb < 30_000
    # Two per cent is the limit; a busy machine's clock ticks and caches are given as much again.
    assert share < 0.04


@pytest.mark.parametrize("folder", ["", "trial"])
def test_nobody_comes_and_the_owner_is_gone(tmp_path: Path, fake: str, folder: str) -> None:
    """Started by a process that dies before it says hello."""
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from joulelab.meter import link\n"
        "from joulelab.meter.runtime import Settings, private\n"
        "runtime = private()\n"
        "with runtime.locked():\n"  # as connect() does: else any sampler that starts now sweeps it away
        "    link._start(runtime, Settings(owner=os.getpid(), out=sys.argv[1], devices=(sys.argv[2],)))\n"
        "print(runtime.path, flush=True)\n"
        "os._exit(1)\n"
    )
    out = str(tmp_path / folder) if folder else ""
    if folder:
        (tmp_path / folder).mkdir()
    ran = subprocess.run([sys.executable, "-c", code, out, fake], capture_output=True, text=True, check=False)
    runtime = Path(ran.stdout.strip())
    until = time.monotonic() + 5
    while runtime.exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not runtime.exists()


def test_many_windows_are_all_written(fake: str, tmp_path: Path) -> None:
    with Meter(devices=[fake], out=tmp_path / "trial") as meter:
        pid = meter.open().pid
        for _ in range(3000):
            with meter.window("w"):
                pass
    assert gone(pid)
    # The head, the windows, and the one that the record adds around them.
    assert len((tmp_path / "trial" / "windows.jsonl").read_text().splitlines()) == 3002


def test_a_disk_that_fills_up_in_mid_run_is_said_and_survived(fake: str, tmp_path: Path) -> None:
    runtime = private()
    settings = Settings(owner=os.getpid(), out=str(tmp_path))
    sampler = Sampler(runtime, settings, found=find([fake]))
    try:
        # From here on the file is one that is always full.
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, sampler.record._windows._file)
        os.close(full)
        sampler.record.flush()
        finished: list[Figures] = []
        for number in range(2):
            now_ns = time.monotonic_ns()
            entry = Entry(now_ns, labels={"id": f"1-{number}"}, waiters=[finished.append])
            sampler.book.start(entry)
            sampler.book.end(entry, now_ns)
            sampler.book.settle(now_ns, force=True)
        assert any("No space left" in flag for flag in finished[1]["flags"])  # type: ignore[attr-defined]
        assert sampler.record.find(process=1, number=1) is not None
    finally:
        sampler.close()
        runtime.remove()


@pytest.mark.parametrize(
    ("ours", "theirs", "said"), [("0,1", "1", ""), ("0", "1", "'1'"), ("0", None, "not set"), (None, "1", "")]
)
def test_a_rank_with_cards_of_its_own_is_not_measured_in_silence(
    fake: str, monkeypatch: pytest.MonkeyPatch, ours: str | None, theirs: str | None, said: str
) -> None:
    found = find([fake])
    found.devices[0].simulated = False
    if ours is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ours)
    runtime = private()
    sampler = Sampler(runtime, Settings(owner=os.getpid()), found=found)
    here, there = socket.socketpair()
    client = Client(here, host="h")
    try:
        client.introduce(pid=os.getpid(), ring=None, rank=1)
        sampler.compare(client, theirs)
        finished: list[Figures] = []
        entry = Entry(time.monotonic_ns(), waiters=[finished.append])
        sampler.book.start(entry)
        sampler.book.end(entry, time.monotonic_ns())
        sampler.book.settle(time.monotonic_ns(), force=True)
        flags = [flag for flag in finished[0]["flags"] if "CUDA_VISIBLE" in flag]  # type: ignore[attr-defined]
        assert len(flags) == bool(said)
        assert all(said in flag and "rank 1" in flag for flag in flags)
    finally:
        client.close(sampler._selector)
        there.close()
        sampler.close()
        runtime.remove()


def test_it_leaves_the_session_of_who_started_it(fake: str) -> None:
    """So that a whole group that is killed with -9 still has its windows written."""
    with Meter(devices=[fake]) as meter:
        pid = meter.open().pid
        assert os.getsid(pid) == pid


def test_who_comes_at_the_last_moment_is_served() -> None:
    class Ending(Sampler):
        def __init__(self) -> None:
            self.done: list[str] = []
            self.late = [True, False]

        def run(self) -> None:
            self.done.append("run")

        def waiting(self) -> bool:
            return self.late.pop(0)

        def close(self) -> None:
            self.done.append("close")

    runtime, sampler = private(), Ending()
    _serve(sampler, runtime)
    assert sampler.done == ["run", "run", "close"]
    assert not runtime.path.exists()
