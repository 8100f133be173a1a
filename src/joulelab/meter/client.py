# SPDX-License-Identifier: Apache-2.0
"""A measured process as the sampler sees it: its ring, its open windows, its end."""

from __future__ import annotations

import json
import os
import selectors
import socket
from pathlib import Path

from joulelab.meter.book import Book, Entry, Figures
from joulelab.meter.ring import START, Event, RingReader

# Flags of an end, as bits.
EXCEPTION = 1


class Client:
    """One process; it may hold several connections, this is one of them."""

    def __init__(self, channel: socket.socket, *, host: str) -> None:
        self.socket = channel
        self.host = host
        self.pid = 0
        self.rank: int | None = None
        self.asked = 0  # the number of the question that is being answered
        self.entries: dict[int, Entry] = {}
        self.leaving = False  # it said good-bye
        self.gone = False
        self.pidfd: int | None = None
        self.received = bytearray()
        self._ring: RingReader | None = None
        self._greeting: tuple[Figures, int] | None = None

    def introduce(self, *, pid: int, ring: Path | None, rank: int | None) -> None:
        self.pid, self.rank = pid, rank
        self._ring = RingReader(ring) if ring is not None else None
        try:
            self.pidfd = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self.pidfd = None  # without it, the end of the connection is the end of the process

    def reply(self, message: Figures, *, to: int | None = None) -> None:
        """One line back, to the question under way or another. Who has gone in the meantime gets nothing."""
        asked = self.asked if to is None else to
        try:
            self.socket.sendall(json.dumps({**message, "answers": asked}).encode() + b"\n")
        except OSError:
            return

    def may_write(self) -> bool:
        """Is the ring still mapped in its process? Not so once that runs another program (exec)."""
        if self._ring is None:
            return False
        try:
            return str(self._ring.path) in Path(f"/proc/{self.pid}/maps").read_text(errors="replace")
        except OSError:
            return True

    def greet_later(self, message: Figures) -> None:
        self._greeting = message, self.asked

    def greet(self) -> None:
        """Answer a newcomer, once the sensors have been read."""
        if self._greeting is not None:
            (greeting, asked), self._greeting = self._greeting, None
            self.reply(greeting, to=asked)

    @property
    def dropped(self) -> int:
        return self._ring.dropped if self._ring is not None else 0

    def drain(self, book: Book) -> int:
        """Take what the process has written; how many events that was."""
        if self._ring is None:
            return 0
        count = 0
        for event in self._ring.events():
            count += 1
            if event.kind == START:
                self._start(book, event)
            else:
                entry = self.entries.get(event.window)
                if entry is not None and entry.end_ns is None:
                    if event.flags & EXCEPTION:
                        entry.flags.append("exception")
                    book.end(entry, event.time_ns)
        return count

    def drain_all(self, book: Book) -> None:
        """Take also what is more than one look takes; for who comes to its end."""
        for _ in range(8):
            if not self.drain(book):
                return

    def _start(self, book: Book, event: Event) -> None:
        labels: dict[str, object] = {
            "id": f"{self.pid}-{event.window}",
            "name": event.name,
            "parent": f"{self.pid}-{event.parent}" if event.parent else None,
            "host": self.host,
            "pid": self.pid,
            "thread": event.thread,
            "rank": self.rank,
            "start_ns": event.time_ns,
        }
        entry = Entry(event.time_ns, labels=labels)
        self.entries[event.window] = entry
        book.start(entry)

    def interrupt(self, book: Book, now_ns: int) -> None:
        """End every window that is still open: the process cannot do it any more."""
        for entry in self.entries.values():
            if entry.end_ns is None:
                entry.flags.append("interrupted")
                book.end(entry, now_ns)

    def close(self, selector: selectors.BaseSelector) -> None:
        for thing in (self.socket, self.pidfd):
            if thing is not None:
                try:
                    selector.unregister(thing)
                except (KeyError, ValueError):
                    continue
        self.socket.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
        if self._ring is not None:
            self._ring.close()
