# SPDX-License-Identifier: Apache-2.0
"""One worker, its guardian, a random moment and a way to end. What was there before has to be there again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from joulelab.knobs.lease import LeaseFolder
from tests.fakes.caps import CPU_LONG_UW, CPU_SHORT_UW, GPU_FOUND_MW, Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

GPU_W, CPU_W = 300, 120
LEGAL = {
    "constraint_0_power_limit_uw": (CPU_W * 1_000_000, CPU_LONG_UW),
    "constraint_1_power_limit_uw": (CPU_W * 1_000_000, CPU_SHORT_UW),
    "enabled": (0, 1),
}
HOLD_S = 0.3
LIMIT_S = 2.0  # from the death of the worker until all is as it was, where a guardian or the worker does it
WAYS = (
    "sigterm",
    "sigkill",
    "out of memory",
    "killed for memory",
    "exception",
    "guardians first",
    "guardians and worker",
    "worker and guardians",
    "restart",
)
# Without a guardian to do it, or with a restart in between: the next command does it.
BY_THE_NEXT = {"guardians and worker", "worker and guardians", "restart"}
MARK = "JOULELAB_VIOLENCE"


@dataclass(frozen=True)
class Outcome:
    way: str
    moment_s: float
    back_s: float | None  # None: it took the next command
    in_force: bool  # a cap was in force at that moment
    wrong: str


def round_of(machine: Machine, *, way: str, seed: int, next_command: list[str]) -> Outcome:
    """Start a worker, end it, and say what was wrong afterwards; empty if nothing was."""
    dice = random.Random(seed)
    mark = uuid.uuid4().hex
    with memory_group(mark, used=way == "killed for memory") as group:
        return _round(machine, way=way, dice=dice, mark=mark, next_command=next_command, group=group)


def _round(
    machine: Machine,
    *,
    way: str,
    dice: random.Random,
    mark: str,
    next_command: list[str],
    group: Path | None,
) -> Outcome:
    before = machine.state()
    asked = {
        "devices": machine.devices,
        "power_limit": GPU_W,
        "cpu_power_limit": CPU_W,
        "ends": way,
        "after_s": dice.uniform(0.0, 0.2),
        "hold_s": HOLD_S,
        "grows": 100 if group else 0,
    }
    limits: list[str] = ["prlimit", "--as=1073741824"] if way == "out of memory" else []
    if group:
        limits = ["sh", "-c", f'echo $$ > "{group}/cgroup.procs" && exec "$@"', "sh"]
    by_itself = way in {"out of memory", "exception"} or group is not None
    victim = subprocess.Popen(
        [*limits, sys.executable, str(Path(__file__).with_name("victim.py")), json.dumps(asked)],
        env={**machine.environment(), MARK: mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    began_s = time.monotonic()
    # Any moment of its life: while it starts, sets, holds, puts back, and when it has gone.
    moment_s = dice.uniform(0.0, 1.0)
    try:
        if not by_itself:
            _sleep_until(began_s + moment_s, victim)
        in_force = by_itself or machine.state() != before
        if not by_itself:
            _end(way, victim, mark=mark, dice=dice)
        code = victim.wait(30)
        if group and code != -signal.SIGKILL:
            return Outcome(way, moment_s, None, in_force, f"ended with {code}, not killed by the kernel")
        dead_s = time.monotonic()
        back_s: float | None = None
        if way not in BY_THE_NEXT:
            back_s = _wait_for(machine, before, since_s=dead_s)
        else:
            _kill(guardians(mark), signal.SIGKILL)
            if way == "restart":
                _restart(machine, before)
            subprocess.run(
                next_command, env=machine.environment(), check=False, capture_output=True, timeout=50
            )
        return Outcome(way, moment_s, back_s, in_force, _wrong(machine, before, back_s, way=way))
    finally:
        _kill(marked(mark), signal.SIGKILL)
        victim.kill()
        victim.wait()


@contextmanager
def memory_group(mark: str, *, used: bool) -> Iterator[Path | None]:
    """A group of processes that may have 150 MiB: the kernel kills the largest, which is the worker.

    None where none can be made (it needs root and cgroup v1): then it is killed as the kernel would.
    """
    own = Path("/sys/fs/cgroup/memory") / _own_memory_group().lstrip("/")
    group = own / f"joulelab-test-{mark}"
    try:
        if not used:
            raise PermissionError
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text("157286400", encoding="ascii")
    except OSError:
        yield None
        return
    try:
        yield group
    finally:
        until = time.monotonic() + 5.0
        while group.exists() and time.monotonic() < until:
            with suppress(OSError):
                group.rmdir()
            time.sleep(0.01)


def _own_memory_group() -> str:
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
            if ":memory:" in line:
                return line.partition(":memory:")[2]
    return "none"


def _end(way: str, victim: subprocess.Popen[bytes], *, mark: str, dice: random.Random) -> None:
    if way == "sigterm":
        victim.send_signal(signal.SIGTERM)
    elif way in {"sigkill", "killed for memory"}:
        # As the kernel does when memory is short: the worker is killed, and hears nothing of it.
        victim.kill()
    elif way == "guardians first":
        _kill(guardians(mark), signal.SIGKILL)
        time.sleep(dice.uniform(0.0, 0.05))
        victim.send_signal(signal.SIGTERM)
    elif way == "guardians and worker":
        _kill(guardians(mark), signal.SIGKILL)
        victim.kill()
    elif way in {"worker and guardians", "restart"}:
        victim.kill()
        time.sleep(dice.choice([0.0, dice.uniform(0.0, 0.1)]))
        _kill(guardians(mark), signal.SIGKILL)


def _wait_for(machine: Machine, before: dict[str, int], *, since_s: float) -> float | None:
    while time.monotonic() < since_s + LIMIT_S:
        if machine.state() == before and not LeaseFolder(machine.leases).leases():
            return time.monotonic() - since_s
        time.sleep(0.005)
    return None


def _restart(machine: Machine, before: dict[str, int]) -> None:
    """The machine comes up with its defaults, and with another boot id than the leases have."""
    for file in machine.leases.glob("*.json"):
        lease = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps({**lease, "boot": "of yesterday"}), encoding="utf-8")
    log = machine.config.with_name("nvml.config.setters")
    log.unlink(missing_ok=True)
    for name, value in before.items():
        if not name.startswith("gpu"):
            (machine.powercap / name).write_text(f"{value}\n", encoding="ascii")
    (machine.path / "writes.log").unlink(missing_ok=True)


def _wrong(machine: Machine, before: dict[str, int], back_s: float | None, *, way: str) -> str:
    after = machine.state()
    if after != before:
        return f"not as before: {[(n, before[n], after[n]) for n in before if before[n] != after[n]]}"
    if way not in BY_THE_NEXT and back_s is None:
        return f"not within {LIMIT_S} s, or a lease was left"
    left = LeaseFolder(machine.leases).leases() or LeaseFolder(machine.leases).damaged()
    if left:
        return f"left behind: {left}"
    if way == "restart" and (machine.gpu_log() or machine.cpu_log()):
        return "something was set after the machine had started again"
    strange = [f"board {b}: {mw}" for b, mw in machine.gpu_log() if mw not in {GPU_FOUND_MW, GPU_W * 1000}]
    strange += [f"{f} = {v}" for f, v in machine.cpu_log() if v not in LEGAL.get(Path(f).name, ())]
    return f"set in between: {strange}" if strange else ""


def marked(mark: str) -> dict[int, bytes]:
    """The processes of this round, with their command lines."""
    found: dict[int, bytes] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_bytes()
    return found


def guardians(mark: str) -> dict[int, bytes]:
    return {pid: words for pid, words in marked(mark).items() if b"joulelab.knobs.guardian" in words}


def _kill(processes: dict[int, bytes], number: int) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _sleep_until(at_s: float, victim: subprocess.Popen[bytes]) -> None:
    with suppress(subprocess.TimeoutExpired):
        victim.wait(max(0.0, at_s - time.monotonic()))
