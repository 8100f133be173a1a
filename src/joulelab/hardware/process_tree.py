# SPDX-License-Identifier: Apache-2.0
"""CPU time and memory of process trees, as the system tells them at one moment."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, kw_only=True)
class Process:
    """One live process (or one that ended and waits to be collected)."""

    pid: int
    started: float  # tells a process from a later one of the same number
    parent: int
    own_s: float  # CPU time of the process itself
    ended_s: float  # CPU time of its children that ended and were waited for, and of theirs
    private_b: int  # resident memory of its own
    shared_b: int  # resident memory that others may map too


Snapshot = dict[int, Process]


def snapshot(roots: Iterable[int]) -> Snapshot:
    """The trees under `roots`."""
    wanted = dict.fromkeys(roots)
    return _linux(wanted) if sys.platform == "linux" else _psutil(wanted)


def follow(seen: Snapshot) -> Snapshot:
    """The processes `seen` before that still live, even those that lost their parent, and their offspring."""
    # Parents first: a child that ends after it was read and before its parent is would count twice.
    oldest_first = sorted(seen.values(), key=lambda p: (p.started, p.pid))
    wanted: dict[int, float | None] = {process.pid: process.started for process in oldest_first}
    before = seen
    for _ in range(5):
        now = _linux(wanted) if sys.platform == "linux" else _psutil(wanted)
        if all(pid in now for pid in before):
            break
        # A process went. Its parent may have been read just before it took over the time, so all is read
        # again until nobody goes in between: then whoever is missing has been handed over.
        before = now
    return now


def clock_s(pid: int) -> float:
    """CPU time of all threads of a process, to the nanosecond; OSError when it is gone. Linux only."""
    # The number of another process's CPU clock, as clock_getcpuclockid(3) makes it: one system call a
    # process, where /proc takes several and counts in steps of 10 ms.
    return time.clock_gettime((~pid << 3) | 2)


def _linux(wanted: Mapping[int, float | None]) -> Snapshot:
    """`wanted` maps a number to the start of that process, which tells it from a later one of that number."""
    found: Snapshot = {}
    waiting = deque(wanted)
    by_parent: dict[int, list[int]] | None = None
    threads, processes = 0, sum(1 for _ in os.scandir(PROC))
    while waiting:
        pid = waiting.popleft()
        # Whoever measures is often a child of what it measures; its own work is not the training's.
        if pid in found or (pid == os.getpid() and pid not in wanted):
            continue
        entry = _read(pid)
        if entry is None:
            continue
        process, own_threads = entry
        if wanted.get(pid) not in {None, process.started}:
            continue
        found[pid] = process
        # The kernel lists children thread by thread, one file each. Where that is more files than the whole
        # system has processes, or where there are no such files, all processes are asked for their parent.
        threads += own_threads
        children = _children(pid) if by_parent is None and threads <= processes else None
        if children is None:
            by_parent = by_parent if by_parent is not None else _all_parents()
            children = by_parent.get(pid, [])
        waiting += children
    return found


def _read(pid: int) -> tuple[Process, int] | None:
    """A process, and how many threads it has."""
    tick_s, page_b = 1.0 / os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    try:
        # The command's name stands in parentheses and may hold anything, more parentheses included.
        cells = _content(f"{PROC}/{pid}/stat").rpartition(b")")[2].split()
        resident, shared = _content(f"{PROC}/{pid}/statm").split()[1:3]
    except (OSError, ValueError):
        return None
    own_s = (int(cells[11]) + int(cells[12])) * tick_s
    with contextlib.suppress(OSError):
        own_s = max(own_s, clock_s(pid))
    process = Process(
        pid=pid,
        started=float(cells[19]),
        parent=int(cells[1]),
        own_s=own_s,
        ended_s=(int(cells[13]) + int(cells[14])) * tick_s,
        private_b=(int(resident) - int(shared)) * page_b,
        shared_b=int(shared) * page_b,
    )
    return process, int(cells[17])


def _content(path: str) -> bytes:
    """A small file of /proc in one read; pathlib takes twice the time, and there are many a second."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, 65536)
    finally:
        os.close(file)


def _children(pid: int) -> list[int] | None:
    """Children by thread, which the kernel lists if it was built so; None where it was not."""
    found: list[int] = []
    try:
        for thread in os.scandir(PROC / str(pid) / "task"):
            try:
                found += map(int, _content(f"{thread.path}/children").split())
            except ProcessLookupError:
                continue
            except FileNotFoundError:
                if Path(thread.path).exists():
                    return None
    except OSError:
        return []
    return found


def _all_parents() -> dict[int, list[int]]:
    by_parent: dict[int, list[int]] = {}
    for entry in os.scandir(PROC):
        if entry.name.isdigit():
            try:
                parent = int(_content(f"{entry.path}/stat").rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
            by_parent.setdefault(parent, []).append(int(entry.name))
    return by_parent


def _psutil(wanted: Mapping[int, float | None]) -> Snapshot:
    import psutil  # type: ignore[import-untyped]

    found: Snapshot = {}
    for pid, started in wanted.items():
        try:
            top = psutil.Process(pid)
            if started not in {None, top.create_time()}:
                continue
            members = [top, *top.children(recursive=True)]
        except psutil.Error:
            continue
        for member in members:
            try:
                with member.oneshot():
                    cpu = member.cpu_times()
                    found[member.pid] = Process(
                        pid=member.pid,
                        started=member.create_time(),
                        parent=member.ppid(),
                        own_s=cpu.user + cpu.system,
                        ended_s=getattr(cpu, "children_user", 0.0) + getattr(cpu, "children_system", 0.0),
                        private_b=member.memory_info().rss,
                        shared_b=0,
                    )
            except psutil.Error:
                continue
    return found
