# SPDX-License-Identifier: Apache-2.0
"""Starts and ends of windows, from a measured process to the sampler, through a file that both have mapped.

The measured process writes 64 bytes per event and calls nothing that enters the kernel. One process writes
(any number of its threads), one reads. A full ring drops events and counts them; it never waits.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SLOTS = 1 << 15
EVENT = struct.Struct("<8Q")
HEADER = 64
TAIL, DROPPED = 0, 1  # words of the header: events taken by the reader, events that the writer had to drop
# Two threads may both see the last free slot; no more than this many can be between looking and writing.
MARGIN = 256
# A thread that was interrupted between taking a number and writing (Ctrl-C) never writes: so long is waited.
HOLE_S = 2.0
START, END = 1, 2
# The number of every name that there was no room to write down.
NAMELESS = (1 << 32) - 1


class Event(NamedTuple):
    """A window started or ended."""

    kind: int
    name: str  # of a start
    flags: int  # of an end
    window: int
    parent: int  # 0: none
    thread: int
    time_ns: int


class RingWriter:
    """The measured process's side."""

    def __init__(self, path: Path, *, slots: int = SLOTS) -> None:
        size = HEADER + slots * EVENT.size
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # Reserved now: a file system that fills up later must not kill the process that writes.
            os.posix_fallocate(descriptor, 0, size)
            self._map = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        self._words = memoryview(self._map).cast("Q")
        self._slots = slots
        self._count = itertools.count()
        self._last = 0
        self._names: dict[str, int] = {}
        # Kept open: a name that is new costs one write, not four calls.
        self._names_file = os.open(
            path.with_suffix(".names"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        self._full = False  # the file of the names takes no more
        self._lock = threading.Lock()

    @property
    def dropped(self) -> int:
        return self._words[DROPPED]

    def name(self, text: str) -> int:
        """The number of a name; the first use of a name writes it down."""
        number = self._names.get(text)
        return number if number is not None else self._new_name(text)

    def _new_name(self, text: str) -> int:
        with self._lock:
            if text not in self._names:
                self._names[text] = NAMELESS if self._full else self._written(text)
            return self._names[text]

    def _written(self, text: str) -> int:
        """A name goes into the file whole, or none does any more: a full disk must not stop a training."""
        line = json.dumps(text).encode() + b"\n"
        try:
            self._full = os.write(self._names_file, line) < len(line)
        except OSError:
            self._full = True
        return NAMELESS if self._full else len(self._names)

    def put(self, what: int, *, window: int, parent: int, thread: int, time_ns: int) -> None:
        """One event; `what` is kind | name << 8, or kind | flags << 8."""
        words = self._words
        if self._last - words[TAIL] > self._slots - MARGIN:
            words[DROPPED] += 1
            return
        # next() of a count is one step of the interpreter: two threads never get the same number.
        number = next(self._count)
        self._last = number
        # The check tells a whole event from one whose bytes are still on their way to the other core.
        check = number ^ what ^ window ^ parent ^ thread ^ time_ns
        EVENT.pack_into(
            self._map,
            HEADER + number % self._slots * 64,
            number + 1,
            what,
            window,
            parent,
            thread,
            time_ns,
            check,
            0,
        )

    def close(self) -> None:
        self._words.release()
        self._map.close()
        os.close(self._names_file)


class RingReader:
    """The sampler's side."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._words = memoryview(self._map).cast("Q")
        self._slots = (len(self._map) - HEADER) // EVENT.size
        self._names: list[str] = []
        self._names_file = path.with_suffix(".names").open(encoding="utf-8")
        self._hole = (-1, 0.0)  # the number that is missing, and since when

    @property
    def dropped(self) -> int:
        return self._words[DROPPED]

    def events(self, *, limit: int = 20_000) -> Iterator[Event]:
        """What has come since the last look, at most `limit`."""
        tail = self._words[TAIL]
        for number in range(tail, tail + limit):
            at = HEADER + number % self._slots * 64
            commit, what, window, parent, thread, time_ns, check, _ = EVENT.unpack_from(self._map, at)
            if commit != number + 1 or check != number ^ what ^ window ^ parent ^ thread ^ time_ns:
                if not self._never_comes(number):
                    return
                self._words[TAIL] = number + 1
                continue
            kind, rest = what & 0xFF, what >> 8
            yield Event(
                kind,
                self._name(rest) if kind == START else "",
                0 if kind == START else rest,
                window,
                parent,
                thread,
                time_ns,
            )
            self._words[TAIL] = number + 1

    def _never_comes(self, number: int) -> bool:
        """Has this event been missing for long while later ones are there?"""
        later = range(number + 1, number + MARGIN)
        if not any(self._words[HEADER // 8 + n % self._slots * 8] == n + 1 for n in later):
            return False
        if self._hole[0] != number:
            self._hole = number, time.monotonic()
        return time.monotonic() - self._hole[1] >= HOLE_S

    def _name(self, number: int) -> str:
        if number == NAMELESS:
            return "?"
        while len(self._names) <= number:
            line = self._names_file.readline()
            if not line:
                return f"#{number}"
            self._names.append(json.loads(line))
        return self._names[number]

    def close(self) -> None:
        self._words.release()
        self._map.close()
        self._names_file.close()
