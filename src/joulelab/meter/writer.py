# SPDX-License-Identifier: Apache-2.0
"""Lines appended to a file whole, by a process that must not die of a full disk."""

from __future__ import annotations

import os
from pathlib import Path

# With the disk full, so much is kept in memory; then the oldest lines are given up.
KEPT = 4 << 20
BATCH = 1 << 16


class Appender:
    """Collects lines and writes them in batches; remembers where each began."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fault = ""  # why the file can no longer be written, once that has happened
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._written = os.fstat(self._file).st_size
        self._pending = bytearray()
        if self._written and os.pread(self._file, 1, self._written - 1) != b"\n":
            # Whoever wrote here before was killed in mid-line; its torn line must not spoil ours.
            self._pending += b"\n"

    @property
    def empty(self) -> bool:
        return not self._written and not self._pending

    def append(self, line: str) -> int:
        """Take one line, without its end; the place at which it begins."""
        place = self._written + len(self._pending)
        self._pending += line.encode() + b"\n"
        if len(self._pending) >= BATCH and not self.fault:
            self.flush()
        if len(self._pending) > KEPT:
            del self._pending[: self._pending.index(b"\n", KEPT // 2) + 1]
        return place

    def flush(self) -> None:
        """Write what is pending; on failure keep it and say why in `fault`."""
        while self._pending:
            try:
                count = os.write(self._file, self._pending)
            except OSError as error:
                self.fault = f"{self.path} cannot be written: {error.strerror}"
                return
            self._written += count
            del self._pending[:count]
        self.fault = ""

    @property
    def size(self) -> int:
        return self._written + len(self._pending)

    def restart(self) -> None:
        """Give up everything written so far."""
        self._pending.clear()
        os.ftruncate(self._file, 0)
        self._written = 0

    def line(self, place: int) -> str:
        """The line that begins there.

        Callers check that it is theirs: lines may have been given up before it.
        """
        self.flush()
        if place >= self._written:
            raw = bytes(self._pending[place - self._written :])
        else:
            raw = b""
            while b"\n" not in raw:
                more = os.pread(self._file, 4096, place + len(raw))
                if not more:
                    break
                raw += more
        return raw.partition(b"\n")[0].decode(errors="replace")

    def close(self) -> None:
        self.flush()
        os.close(self._file)
