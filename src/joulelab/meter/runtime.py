# SPDX-License-Identifier: Apache-2.0
"""Where a sampler and the processes that it measures meet: a folder on a local disk, never in the record."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket as sockets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from joulelab.errors import RecordError

VARIABLE = "JOULELAB_METER"
# A launcher may give each rank a card of its own; the sampler measures those of the process that started it.
VISIBLE = "CUDA_VISIBLE_DEVICES"
# A UNIX socket's path has room for 107 bytes.
LONGEST = 70


@dataclass(frozen=True)
class Settings:
    """What a sampler is told at its start."""

    owner: int  # the process that starts it
    out: str = ""  # folder of the record; empty: none
    devices: tuple[str, ...] = ()
    host: str = field(default_factory=sockets.gethostname)


@dataclass(frozen=True)
class Runtime:
    """The folder, and every path in it."""

    path: Path

    @property
    def settings(self) -> Path:
        return self.path / "meter.json"

    @property
    def socket(self) -> Path:
        return self.path / "socket"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def spool(self) -> Path:
        """Takes the place of windows.jsonl where no record is kept."""
        return self.path / "windows.jsonl"

    def ring(self, pid: int, number: int) -> Path:
        return self.path / f"ring-{pid}-{number}"

    def write(self, settings: Settings) -> None:
        self.settings.write_text(json.dumps(asdict(settings)), encoding="utf-8")

    def read(self) -> Settings:
        raw = json.loads(self.settings.read_text(encoding="utf-8"))
        return Settings(owner=raw["owner"], out=raw["out"], devices=tuple(raw["devices"]), host=raw["host"])

    @contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[bool]:
        """Hold the folder's lock; False if the folder was removed while we waited for it."""
        try:
            descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            yield False
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                same = os.fstat(descriptor).st_ino == self.lock.stat().st_ino
            except FileNotFoundError:
                same = False
            yield same
        finally:
            os.close(descriptor)

    def dial(self) -> sockets.socket | None:
        """A connection to the sampler here; None if there is none."""
        connection = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        try:
            connection.connect(str(self.socket))
        except OSError:
            connection.close()
            return None
        return connection

    def remove_if_dead(self) -> None:
        """Delete what a sampler that was killed left here; nothing if one lives or is about to."""
        try:
            # Somebody who holds the lock is starting or ending a sampler: then all is well.
            with self.locked(wait=False) as alive:
                connection = self.dial() if alive else None
                if connection is not None:
                    connection.close()
                elif alive:
                    self.remove()
        except OSError:
            return

    def remove(self) -> None:
        """Delete what samplers and their clients put here, and nothing else."""
        for pattern in ("ring-*", "socket", "meter.json", "windows.jsonl", "sampler.log", "lock"):
            for path in self.path.glob(pattern):
                path.unlink(missing_ok=True)
        if self.path.exists() and not any(self.path.iterdir()):
            self.path.rmdir()


def sweep() -> None:
    """Delete what this user's killed samplers left on this host when their processes were killed, too."""
    for path in home().glob("joulelab-*"):
        runtime = Runtime(path)
        try:
            if path.stat().st_uid == os.getuid() and runtime.read().host == sockets.gethostname():
                runtime.remove_if_dead()
        except (OSError, ValueError, KeyError, TypeError):
            continue  # being made, being removed, or not ours


def home() -> Path:
    """A local folder for temporary files with a path short enough for a socket."""
    for candidate in (tempfile.gettempdir(), "/tmp", "/dev/shm"):
        if len(os.fsencode(candidate)) <= LONGEST and os.access(candidate, os.W_OK | os.X_OK):
            return Path(candidate)
    raise RecordError(
        "no folder for temporary files can be written, or its path is too long for a socket",
        cure=f"set TMPDIR to a local folder whose path has at most {LONGEST} characters",
    )


def private() -> Runtime:
    """A folder of one's own."""
    return Runtime(Path(tempfile.mkdtemp(prefix="joulelab-", dir=home())))


def shared(key: str) -> Runtime:
    """The folder of all processes on this host that know the same key."""
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    path = home() / f"joulelab-{os.getuid()}-{digest}"
    path.mkdir(mode=0o700, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise RecordError(f"{path} belongs to somebody else", cure="set TMPDIR to a folder of your own")
    return Runtime(path)


def job_key(environment: Mapping[str, str], *, out: str, devices: Sequence[str]) -> str:
    """The same text in all processes of one job that write the same record; empty outside of jobs."""
    for names in (
        ("TORCHELASTIC_RUN_ID", "MASTER_PORT"),
        ("SLURM_JOB_ID", "SLURM_STEP_ID"),
        ("MASTER_ADDR", "MASTER_PORT"),
    ):
        if all(environment.get(name) for name in names):
            # torchrun calls every run "none" unless it is told otherwise; its port tells runs apart.
            return json.dumps([[environment[name] for name in names], out, list(devices)])
    return ""


def is_joined(environment: Mapping[str, str], *, out: str, devices: Sequence[str]) -> bool:
    """Whether a sampler of this job, for this record, is at work on this host already."""
    key = job_key(environment, out=out, devices=devices)
    try:
        connection = shared(key).dial() if key else None
    except OSError:
        return False
    if connection is None:
        return False
    connection.close()
    return True
