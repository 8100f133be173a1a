# SPDX-License-Identifier: Apache-2.0
"""Who runs a trial. A claim is a file; it ends with its holder, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from typing import TYPE_CHECKING

import msgspec

from joulelab.errors import RecordError
from joulelab.records import store
from joulelab.records.attempts import set_aside
from joulelab.records.process import boot_id, started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from joulelab.records.layout import TrialFolder

_LOCK = ".claim.lock"


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A process, told apart from a later one with the same number."""

    host: str
    boot: str
    pid: int
    started: str  # ticks since boot, as the kernel says
    job: str = ""  # of a cluster's scheduler, of which the process is the script
    schema: int = 1


def take(folder: TrialFolder) -> bool:
    """Take the trial for this process. False: another one that lives has it, or it is done.

    What an earlier attempt left is set aside, so that whoever holds the claim starts on clean files.
    """
    with locked(folder.path / _LOCK):
        if folder.done.exists() or is_alive(folder):
            return False
        set_aside(folder)
        store.write_json(folder.claim, this_process())
        return True


def take_for_job(folder: TrialFolder, *, job: str, runner: int) -> bool:
    """`take` for the process `runner` here, the script of a scheduler's job.

    What an earlier start of the same job holds is void: a scheduler runs a job once at a time, and may have
    lost the node that it ran on.
    """
    with locked(folder.path / _LOCK):
        if folder.done.exists() or (is_alive(folder) and job_of(folder) != job):
            return False
        set_aside(folder)
        here = msgspec.structs.replace(this_process(), pid=runner, started=started(runner), job=job)
        store.write_json(folder.claim, here)
        return True


def job_of(folder: TrialFolder) -> str:
    """The job whose script holds the trial; empty where none does."""
    try:
        return store.read_json(folder.claim, Holder).job
    except RecordError:
        return ""


def release(folder: TrialFolder) -> None:
    """Let another process take the trial."""
    with locked(folder.path / _LOCK):
        folder.claim.unlink(missing_ok=True)


def forget(folder: TrialFolder) -> None:
    """Take back a claim after which nothing was begun: a folder that is empty but for it goes, too."""
    release(folder)
    with contextlib.suppress(OSError):
        if [path.name for path in folder.path.iterdir()] == [_LOCK]:
            (folder.path / _LOCK).unlink()
            folder.path.rmdir()


def is_alive(folder: TrialFolder) -> bool:
    """Whether somebody runs the trial now.

    A holder on another host is believed to: only there can one look.
    """
    try:
        holder = store.read_json(folder.claim, Holder)
    except RecordError:
        return False
    here = this_process()
    if holder.host != here.host:
        return True
    return holder.boot == here.boot and started(holder.pid) == holder.started


def is_locked(folder: TrialFolder) -> bool:
    """Whether a worker runs the trial though its runner is gone: the lock that it inherited is held."""
    try:
        descriptor = os.open(folder.turn, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks
    else:
        return False
    finally:
        os.close(descriptor)


def this_process() -> Holder:
    pid = os.getpid()
    return Holder(host=socket.gethostname(), boot=boot_id(), pid=pid, started=started(pid))


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time.

    The kernel lets go when the holder dies. The file stays, empty: removing it would race.
    """
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise RecordError(
            f"{path} cannot be opened: {error.strerror}", cure="make the folder writable"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
