# SPDX-License-Identifier: Apache-2.0
"""Real processes, seen through /proc and through psutil."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from joulelab.hardware import process_tree
from joulelab.hardware.process_tree import clock_s, follow, snapshot

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# A parent with one child; each says when it is there, and both end with their standard input.
FAMILY = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys; print('there', flush=True); sys.stdin.read()"],
                         stdin=subprocess.PIPE)
print(child.pid, flush=True)
sys.stdin.read()
if sys.argv[1] == "leave":
    import os
    os._exit(0)
child.communicate()
"""


@pytest.fixture
def family() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", FAMILY, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        yield parent
        parent.communicate()


def child_of(parent: subprocess.Popen[str]) -> int:
    assert parent.stdout is not None
    words = {parent.stdout.readline().strip(), parent.stdout.readline().strip()}
    (number,) = words - {"there"}
    return int(number)


@pytest.mark.parametrize("way", ["children files", "every process", "psutil"])
def test_a_tree(family: subprocess.Popen[str], way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    child = child_of(family)
    if way == "every process":
        monkeypatch.setattr(process_tree, "_children", lambda pid: None)
    if way == "psutil":
        monkeypatch.setattr(process_tree, "_linux", process_tree._psutil)
    seen = snapshot([family.pid])
    assert set(seen) == {family.pid, child}
    assert seen[child].parent == family.pid
    for process in seen.values():
        assert process.own_s > 0.0 or way == "psutil"  # which counts in steps of 10 ms
        assert process.private_b + process.shared_b > 2**20
    assert set(snapshot([os.getpid()])) >= {os.getpid(), family.pid, child}


def test_psutil_and_proc_agree(family: subprocess.Popen[str]) -> None:
    child_of(family)
    proc, other = snapshot([family.pid]), process_tree._psutil(dict.fromkeys([family.pid]))
    for pid, process in proc.items():
        assert other[pid].own_s == pytest.approx(process.own_s, abs=0.03)
        assert other[pid].private_b == pytest.approx(process.private_b + process.shared_b, rel=0.2)


def test_a_number_that_is_not_there() -> None:
    assert snapshot([2**22 + 12345]) == {}


def test_the_clock_of_another_process_counts_all_its_threads() -> None:
    code = (
        "import threading, time, hashlib, sys\n"
        "def burn():\n    end = time.thread_time() + 0.1\n"
        "    while time.thread_time() < end: hashlib.sha256(b'x' * 100_000).digest()\n"
        "threads = [threading.Thread(target=burn) for _ in range(2)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "print(time.process_time(), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        said_s = float(child.stdout.readline())
        assert said_s >= 0.2
        assert clock_s(child.pid) == pytest.approx(said_s, abs=0.01)
        assert snapshot([child.pid])[child.pid].own_s == pytest.approx(said_s, abs=0.02)
        child.communicate()
    with pytest.raises(OSError, match="Invalid argument"):
        clock_s(child.pid)


def test_orphans_are_followed_and_strangers_are_not() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FAMILY, "leave"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        child = child_of(parent)
        seen = snapshot([parent.pid])
        # Its parent's end closes the child's standard input too, so it is held where it is.
        os.kill(child, signal.SIGSTOP)
        try:
            assert parent.stdin is not None
            parent.stdin.close()
            parent.wait()
            assert set(follow(seen)) == {child}
            later = dataclasses.replace(seen[child], started=seen[child].started + 1)
            assert follow({child: later}) == {}, "the same number, but started at another time"
        finally:
            os.kill(child, signal.SIGCONT)


def test_parents_are_read_before_their_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the time of a child that ends in between would be there twice."""
    seen = {
        pid: process_tree.Process(
            pid=pid, started=started, parent=parent, own_s=0.0, ended_s=0.0, private_b=0, shared_b=0
        )
        for pid, started, parent in ((900, 3.0, 800), (700, 2.0, 1), (800, 3.0, 700))
    }
    asked: list[int] = []

    def read(wanted: dict[int, float | None]) -> process_tree.Snapshot:
        asked.extend(wanted)
        return seen

    monkeypatch.setattr(process_tree, "_linux", read)
    assert follow(seen) == seen
    assert asked == [700, 800, 900]


def test_a_death_between_two_reads_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    here = snapshot([os.getpid()])[os.getpid()]
    gone = dataclasses.replace(here, pid=2**22 + 1)
    late = dataclasses.replace(here, ended_s=here.ended_s + 5.0)
    shots = [{here.pid: here}, {here.pid: late}]
    monkeypatch.setattr(process_tree, "_linux", lambda wanted: shots.pop(0))
    assert follow({here.pid: here, gone.pid: gone}) == {here.pid: late}
