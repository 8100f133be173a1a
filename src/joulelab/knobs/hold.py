# SPDX-License-Identifier: Apache-2.0
"""Caps of several devices for as long as a block runs: taken, guarded, set, read back, put back."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from joulelab.errors import SensorError
from joulelab.hardware.cap import SAME_W, Cap
from joulelab.knobs.guardian import DONE, READY
from joulelab.knobs.lease import Lease, LeaseFolder
from joulelab.knobs.put_back import Say, put_back, settle
from joulelab.records.process import started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

GUARDIAN_S = 30.0  # to start, or to leave, on a machine that is busy with other things


@contextmanager
def held(
    wanted: Sequence[tuple[Cap, float]], *, folder: LeaseFolder, trial: str, say: Say
) -> Iterator[list[dict[str, Any]]]:
    """Each cap at its watts inside; what was found and set, a device a row, for the record.

    The order is what makes it safe to be killed at any moment: the lock, what an earlier holder left, the
    guardian, the note of what is found, and only then the first change.
    """
    # By uid: two trials that want the same two devices cannot each hold one and wait for the other.
    ordered = sorted(wanted, key=lambda pair: pair[0].uid)
    with ExitStack() as stack:
        for cap, _ in ordered:
            stack.enter_context(folder.lock(cap.uid, waiting=_waiting(cap, say)))
            lease = folder.read(cap.uid)
            if lease is not None:
                settle(folder, lease, say=say)
        stack.enter_context(_guardian(folder, [cap.uid for cap, _ in ordered]))
        rows = []
        for cap, power_w in ordered:
            rows.append(stack.enter_context(_set(cap, power_w, folder=folder, trial=trial)))
        yield rows


@contextmanager
def _set(cap: Cap, power_w: float, *, folder: LeaseFolder, trial: str) -> Iterator[dict[str, Any]]:
    limits = cap.limits()
    cap.turn = folder.turn(cap.uid)
    lease = Lease(
        vendor=cap.vendor,
        argument=cap.argument,
        uid=cap.uid,
        name=cap.name,
        asked_w=power_w,
        found=cap.controls(),
        asked=cap.wanted(power_w),
        trial=trial,
    ).by_this_process()
    folder.write(lease)
    try:
        for control, value in lease.asked.items():
            if lease.found[control] != value:
                cap.write(control, value)
        in_force_w = _read_back(cap, lease)
        yield {
            "uid": cap.uid,
            "name": cap.name,
            "vendor": cap.vendor,
            "simulated": cap.simulated,
            "found_w": limits.now_w,
            "asked_w": power_w,
            "in_force_w": in_force_w,
            "default_w": limits.default_w or None,
            "min_w": limits.min_w,
            "max_w": limits.max_w or None,
            "found": lease.found,
            "set": lease.asked,
        }
    finally:
        _twice(lambda: _undo(cap, lease, folder=folder))


def _undo(cap: Cap, lease: Lease, *, folder: LeaseFolder) -> None:
    folder.wait_for_helpers(cap.uid)
    put_back(cap, lease)
    folder.remove(lease)


def _read_back(cap: Cap, lease: Lease) -> float:
    """The cap in force, which is the one asked for, or an error: a driver may accept and ignore one."""
    now = cap.controls()
    ignored = [name for name, value in lease.asked.items() if not cap.same(name, now.get(name, -1), value)]
    if ignored:
        name = ignored[0]
        raise SensorError(
            f"{cap.uid}: {lease.asked[name]} was written to {name}, and {now.get(name)} is read back",
            cure="the limit is locked (by the BIOS, or a virtual machine's host), or out of range: "
            "see `joulelab caps`",
        )
    in_force_w = cap.limits().now_w
    if abs(in_force_w - lease.asked_w) > SAME_W:
        raise SensorError(
            f"{cap.uid}: {lease.asked_w:g} W was set, and {in_force_w:g} W is in force",
            cure="something else (a management controller, a second limit) holds another one: ask "
            "the administrator",
        )
    return in_force_w


def _twice(action: Callable[[], object]) -> None:
    """A request to stop is raised wherever the program is, and once: it must not end this half-way."""
    try:
        action()
    except Exception:
        raise
    except BaseException:
        action()
        raise


@contextmanager
def _guardian(folder: LeaseFolder, uids: Sequence[str]) -> Iterator[None]:
    """A process that puts back what this one leaves; it watches before anything is changed."""
    folder.make()
    pid = os.getpid()
    process = subprocess.Popen(
        # -P: the current folder is no place to find a module that the standard library also has.
        [sys.executable, "-P", "-m", "joulelab.knobs.guardian", str(folder.path), str(pid), started(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A session of its own: what is sent to this one's terminal or group does not reach it.
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": _import_path()},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline() != READY:
            raise SensorError(
                "the guardian, which puts a cap back if this process is killed, did not start",
                cure="see the log of the trial; without it no cap is set",
            )
        yield
    finally:
        # It is let go only when nothing is left to put back. An exception that came between two steps, or a
        # device that did not let itself be put back, leaves a lease: the guardian then stays until this
        # process has ended, and tries.
        left = [lease for uid in uids if (lease := folder.read(uid)) and lease.pid == pid]
        if not left:
            _let_go(process)


def _let_go(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError):
        process.stdin.write(DONE)
        process.stdin.flush()
    for stream in (process.stdin, process.stdout):
        with suppress(OSError):
            stream.close()
    try:
        process.wait(GUARDIAN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _import_path() -> str:
    return os.pathsep.join(dict.fromkeys(entry for entry in map(os.path.abspath, filter(None, sys.path))))


def _waiting(cap: Cap, say: Say) -> Callable[[Lease | None], None]:
    def tell(lease: Lease | None) -> None:
        by = lease.holder() if lease else "another process"
        say(f"waiting: {cap.name} ({cap.uid}) is capped by {by}")

    return tell
