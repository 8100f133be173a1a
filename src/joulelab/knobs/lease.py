# SPDX-License-Identifier: Apache-2.0
"""Who changed a cap, and what was found there: one file a device, for whoever has to put it back.

The folder is on this node, outlives a login and a job, and may be forgotten when the machine starts again,
for then the caps are forgotten too:

- `/run/joulelab` for root, and for all users where an administrator has made it writable for them;
- `/var/tmp/joulelab-UID` otherwise. A session's own folder (XDG_RUNTIME_DIR) goes when its user logs out, and
  /tmp is often private to a job: in both, the note would go and the cap would stay.

JOULELAB_LEASES names another. Standard library only: the guardian imports this.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import re
import socket
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from joulelab.errors import RecordError
from joulelab.records.process import boot_id, started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENVIRONMENT = "JOULELAB_LEASES"
SYSTEM = Path("/run/joulelab")
SCHEMA = 1
HELPER_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Lease:
    """Written before anything is changed, removed when all is as it was."""

    vendor: str
    argument: str
    uid: str
    name: str
    asked_w: float
    found: dict[str, int]  # every control of the cap as it stood, in the order in which they are set
    asked: dict[str, int]  # those that are moved, and to what
    trial: str = ""
    pid: int = 0
    started: str = ""  # ticks since boot: tells the process from a later one with the same number
    host: str = ""
    boot: str = ""
    schema: int = field(default=SCHEMA)

    def by_this_process(self) -> Lease:
        pid = os.getpid()
        return dataclasses.replace(
            self, pid=pid, started=started(pid), host=socket.gethostname(), boot=boot_id()
        )

    def is_here(self) -> bool:
        """Whether it was written on this machine: only there can its device be looked at."""
        # A container may have a name of its own; the start of the machine is that of the machine.
        return self.host == socket.gethostname() or not self.is_outlived()

    def is_outlived(self) -> bool:
        """Whether the machine has started again since: then the cap it tells of is forgotten."""
        return self.boot != boot_id()

    def holder_lives(self) -> bool:
        return self.is_here() and not self.is_outlived() and started(self.pid) == self.started

    def holder(self) -> str:
        return f"process {self.pid}" + (f" (trial {self.trial})" if self.trial else "")


@dataclass(frozen=True)
class LeaseFolder:
    path: Path

    def file(self, uid: str) -> Path:
        return self.path / f"{_slug(uid)}.json"

    def leases(self) -> list[Lease]:
        """All that can be read; a folder that is not there holds none."""
        return [lease for path in self._files() if (lease := _read(path)) is not None]

    def damaged(self) -> list[Path]:
        return [path for path in self._files() if _read(path) is None]

    def read(self, uid: str) -> Lease | None:
        return _read(self.file(uid))

    def is_mine(self, uid: str) -> bool:
        """A lease says what is written where: one that another user wrote is not carried out."""
        try:
            return self.file(uid).lstat().st_uid == os.geteuid()
        except OSError:
            return False

    def write(self, lease: Lease) -> None:
        """Whole or not at all, whatever happens meanwhile."""
        self.make()
        path = self.file(lease.uid)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            beside.write_text(json.dumps(dataclasses.asdict(lease), indent=1) + "\n", encoding="utf-8")
            beside.replace(path)
        except OSError as error:
            raise RecordError(
                f"{path} cannot be written: {error.strerror}; no cap is set without a note of what was found",
                cure=f"make the folder writable, or name another with {ENVIRONMENT}",
            ) from error

    def remove(self, lease: Lease) -> None:
        if _read(self.file(lease.uid)) == lease:
            self.file(lease.uid).unlink(missing_ok=True)

    def make(self) -> None:
        try:
            self.path.mkdir(parents=True, mode=0o755 if self.path == SYSTEM else 0o700, exist_ok=True)
            made = self.path.lstat()
        except OSError as error:
            raise RecordError(
                f"{self.path} cannot be made: {error.strerror}",
                cure=f"name another folder with {ENVIRONMENT}",
            ) from error
        shared = made.st_mode & 0o022 and not made.st_mode & stat.S_ISVTX
        if not stat.S_ISDIR(made.st_mode) or (made.st_uid not in {0, os.geteuid()}) or shared:
            raise RecordError(
                f"{self.path} is not a folder that only this user and root can change",
                cure=f"remove it, or name another with {ENVIRONMENT}",
            )

    @contextlib.contextmanager
    def lock(self, uid: str, *, waiting: Callable[[Lease | None], None] | None = None) -> Iterator[bool]:
        """The device is this process's alone inside. With `waiting`, wait for that and say so; else try once.

        A lock of POSIX, which belongs to the process: one of flock would be inherited by the children that
        load data, and they may outlive it. The file stays: removing it would race.
        """
        self.make()
        descriptor = self._open(self.path / f"{_slug(uid)}.lock")
        try:
            got = _try(descriptor)
            if not got and waiting is not None:
                waiting(self.read(uid))
                fcntl.lockf(descriptor, fcntl.LOCK_EX)
                got = True
            yield got
        finally:
            os.close(descriptor)

    def turn(self, uid: str) -> Path:
        """Locked by the helper processes that move the cap of this device."""
        return self.path / f"{_slug(uid)}.turn"

    def wait_for_helpers(self, uid: str) -> None:
        """Until no helper of a holder that was killed is at work: it would undo what is put back."""
        try:
            descriptor = os.open(self.turn(uid), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return  # no helper has ever been started
        until = time.monotonic() + HELPER_S
        try:
            while time.monotonic() < until:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                time.sleep(0.01)
        finally:
            os.close(descriptor)

    def _open(self, path: Path) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            # Not O_CREAT at once: in a folder that all may write, the kernel refuses it on others' files.
            return os.open(path, flags)
        except FileNotFoundError:
            descriptor = os.open(path, flags | os.O_CREAT, 0o666)
            with contextlib.suppress(PermissionError):
                os.fchmod(descriptor, 0o666)  # another user's trial waits on the same lock
            return descriptor
        except OSError as error:
            raise RecordError(
                f"{path} cannot be opened: {error.strerror}", cure=f"name another folder with {ENVIRONMENT}"
            ) from error

    def _files(self) -> list[Path]:
        try:
            return sorted(path for path in self.path.iterdir() if path.name.endswith(".json"))
        except OSError:
            return []


def lease_folder() -> LeaseFolder:
    """Where this user's leases are on this node; nothing is made."""
    named = os.environ.get(ENVIRONMENT)
    if named:
        return LeaseFolder(Path(named))
    if os.geteuid() == 0 or os.access(SYSTEM, os.W_OK):
        return LeaseFolder(SYSTEM)
    return LeaseFolder(Path(f"/var/tmp/joulelab-{os.geteuid()}"))


def _read(path: Path) -> Lease | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        lease = Lease(**content)
    except (OSError, ValueError, TypeError):
        return None
    known = all(isinstance(v, int) for v in [*lease.found.values(), *lease.asked.values()])
    return lease if known else None


def _try(descriptor: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EACCES, errno.EAGAIN}:
            return False
        raise
    return True


def _slug(uid: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.=+-]+", "-", uid)
