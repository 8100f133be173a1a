# SPDX-License-Identifier: Apache-2.0
"""A measured process's connection to its sampler: find one or start one, and ask it things."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from joulelab.errors import InputError, RecordError, SensorError
from joulelab.meter.ring import RingWriter
from joulelab.meter.runtime import VARIABLE, VISIBLE, Runtime, Settings, job_key, private, shared

ANSWER_S = 10.0
START_S = 60.0


class Link:
    """Base and null object: no sampler.

    Events go nowhere, and questions are answered by why there is none.
    """

    pid = 0

    def __init__(self, why: str) -> None:
        self.why = why
        self.devices: list[dict[str, Any]] = []
        self.problems: list[dict[str, str]] = []
        self.runtime: Runtime | None = None

    def name(self, text: str) -> int:
        del text
        return 0

    def put(self, what: int, *, window: int, parent: int, thread: int, time_ns: int) -> None:
        """Nobody listens."""

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        del request
        raise SensorError(self.why)

    def close(self) -> None:
        """Nothing is open."""

    def abandon(self) -> None:
        """In a child after a fork: what is open belongs to the parent."""


class SamplerLink(Link):
    """A connection, and a ring of one's own."""

    def __init__(self, runtime: Runtime, connection: socket.socket) -> None:
        super().__init__("")
        self.runtime = runtime
        self._socket = connection
        self._received = b""
        self._asked = 0
        self._lock = threading.Lock()
        path, self._ring = _new_ring(runtime)
        if self._ring is not None:
            self.name, self.put = self._ring.name, self._ring.put  # type: ignore[method-assign]
        rank = os.environ.get("RANK", os.environ.get("SLURM_PROCID", ""))
        greeting = self.ask(
            {
                "op": "hello",
                "pid": os.getpid(),
                "ring": str(path) if self._ring is not None else "",
                "rank": int(rank) if rank.isdigit() else None,
                "visible": os.environ.get(VISIBLE),
            }
        )
        self.pid = greeting["pid"]
        self.devices, self.problems = greeting["devices"], greeting["problems"]

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            if self.why:
                raise SensorError(self.why)
            try:
                self._socket.settimeout(ANSWER_S)
                self._asked += 1
                question = {**request, "number": self._asked}
                self._socket.sendall(json.dumps(question).encode() + b"\n")
                answer = self._next()
                # A signal may have ended an earlier question between its two ends: its answer comes first.
                while answer.pop("answers", self._asked) != self._asked:
                    answer = self._next()
            except OSError as error:
                self.why = f"the sampler does not answer: {error}"
                raise SensorError(self.why) from error
        if "error" in answer:
            raise SensorError(f"the sampler refused {request['op']}: {answer['error']}")
        return answer

    def _next(self) -> dict[str, Any]:
        """The next line from the sampler."""
        while b"\n" not in self._received:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionResetError("it has ended")
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Say good-bye; where nobody else is measured, the sampler has gone when this returns."""
        try:
            farewell = self.ask({"op": "bye"})
        except SensorError:
            farewell = {}
        self._socket.close()
        if self._ring is not None:
            self._ring.close()
            self._ring = None
        self.name, self.put = super().name, super().put  # type: ignore[method-assign]
        self.why = "this meter was closed"
        if farewell.get("last"):
            _await_end(self.pid)
        if not farewell and self.runtime is not None:
            # It was killed: nobody else would take its folder away.
            self.runtime.remove_if_dead()
        if farewell.get("fault"):
            say(f"the record is not complete: {farewell['fault']}")
        if farewell.get("dropped"):
            say(f"{farewell['dropped']} starts and ends of windows came too fast to be recorded")

    def abandon(self) -> None:
        self._socket.close()
        self._lock = threading.Lock()  # another thread of the parent may have held it
        self.why = "this window belongs to the parent process"
        self.name, self.put = super().name, super().put  # type: ignore[method-assign]


def connect(
    *,
    out: Path | None,
    devices: Sequence[str],
    joined: Runtime | None = None,
    environment: Mapping[str, str] = os.environ,
) -> SamplerLink:
    """Join the sampler that is meant, or start one.

    Raises SensorError, InputError or RecordError in words.
    """
    named = environment.get(VARIABLE, "")
    settings = Settings(owner=os.getpid(), out=str(out) if out is not None else "", devices=tuple(devices))
    candidates = [joined] if joined is not None else []
    if named and _same(Runtime(Path(named)), settings):
        candidates.append(Runtime(Path(named)))
    for runtime in candidates:
        with runtime.locked() as alive:
            connection = runtime.dial() if alive else None
        if connection is not None:
            return SamplerLink(runtime, connection)
    if out is not None:
        _check_writable(out)
    key = job_key(environment, out=settings.out, devices=settings.devices)
    while True:
        runtime = shared(key) if key else private()
        with runtime.locked() as alive:
            if not alive:
                continue  # a sampler that was ending took the folder away
            connection = runtime.dial() or _start(runtime, settings)
        return SamplerLink(runtime, connection)


def _same(runtime: Runtime, settings: Settings) -> bool:
    """Does the sampler there do what is asked for? Who asks for nothing in particular takes any."""
    if not settings.out and not settings.devices:
        return True
    try:
        there = runtime.read()
    except (OSError, ValueError, KeyError):
        return False
    return there.out in {settings.out, settings.out or there.out} and settings.devices in {(), there.devices}


def _new_ring(runtime: Runtime) -> tuple[Path, RingWriter | None]:
    """A process may connect again, from two threads at once, or as another program (exec)."""
    number = 0
    while True:
        path = runtime.ring(os.getpid(), number)
        try:
            return path, RingWriter(path)
        except FileExistsError:
            number += 1
        except OSError as error:
            # They can still be asked for by their time stamps.
            say(f"windows can be read but are not recorded: {path}: {error.strerror}")
            return path, None


def _start(runtime: Runtime, settings: Settings) -> socket.socket:
    runtime.write(settings)
    package = str(Path(__file__).parents[2])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH", "")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    environment.pop(VARIABLE, None)
    # -P: a file in the working directory must not stand in for a module of the standard library.
    command = [sys.executable, "-P", "-m", "joulelab.meter.sampler", str(runtime.path)]
    try:
        ran = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
        )
        answer = json.loads(ran.stdout or "null") or {
            "error": "SensorError",
            "message": ran.stderr[-2000:],
            "cure": "",
        }
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        answer = {"error": "SensorError", "message": str(error), "cure": ""}
    if "error" in answer:
        runtime.remove()
        kind = {kind.__name__: kind for kind in (InputError, RecordError)}.get(answer["error"], SensorError)
        raise kind(answer["message"], cure=answer["cure"])
    connection = runtime.dial()
    if connection is None:
        raise SensorError("the sampler started and went away at once")
    return connection


def _check_writable(out: Path) -> None:
    """A record that cannot be written is an error before anything runs, not after."""
    cure = "name a folder that you may write to, on a disk with room"
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not os.access(out, os.W_OK | os.X_OK):
            raise RecordError(f"no permission to write to {out}", cure=cure)
        room = os.statvfs(out)
    except OSError as error:
        raise RecordError(f"{out} cannot be used for a record: {error.strerror}", cure=cure) from error
    if room.f_flag & os.ST_RDONLY:
        raise RecordError(f"{out} lies on a read-only disk", cure=cure)
    if room.f_bavail * room.f_frsize < 1 << 20:
        raise RecordError(f"the disk of {out} is full", cure=cure)


def say(what: str) -> None:
    """One line to the person who started this process."""
    # Who has closed it, or has gone, does not want to know; a training does not end of that.
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"joulelab: {what}\n")


def _await_end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return
    try:
        select.select([descriptor], [], [], 5.0)
    finally:
        os.close(descriptor)
