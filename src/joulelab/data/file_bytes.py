# SPDX-License-Identifier: Apache-2.0
"""The bytes of a file, copied out piece by piece; gzip is unpacked into a temporary file that has no name.

A file is not mapped: where somebody cuts a mapped file, the next look at the missing part kills the process.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import shutil
import stat
import tempfile
import zlib
from typing import IO, TYPE_CHECKING

from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_GZIP = b"\x1f\x8b"
_CURE = "give a file of text, plain or gzip"
_STEP = 1 << 16
_UNPACKED_AT_ONCE = 1 << 20
LONGEST = 1 << 26  # of a line: millions of cells; what has none for so long is no text, and would fill memory


class Source:
    """What `opened` gives. Threads may read at once."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._before = self._state()
        self._unpacked = self._unpack()
        self._text = self._descriptor if self._unpacked is None else self._unpacked.fileno()
        self.size = os.fstat(self._text).st_size

    def read(self, buffer: bytearray, start: int, size: int) -> None:
        """`size` bytes from `start` to the front of `buffer`."""
        view = memoryview(buffer)[:size]
        done = 0
        while done < size:
            got = os.preadv(self._text, [view[done:]], start + done)
            if got == 0:
                raise self.changed()
            done += got

    def line(self, start: int) -> bytes:
        """From `start` up to and with the next newline; up to the end if there is none."""
        buffer = bytearray(_STEP)
        line = bytearray()
        while start + len(line) < self.size:
            size = min(_STEP, self.size - start - len(line))
            self.read(buffer, start + len(line), size)
            end = buffer.find(b"\n", 0, size)
            if end >= 0:
                return bytes(line + buffer[: end + 1])
            line += buffer[:size]
            if len(line) > LONGEST:
                raise self.endless()
        return bytes(line)

    def text_begins(self) -> int:
        """0, or 3 behind the mark that some tools put before UTF-8."""
        if self.size < 3:
            return 0
        mark = bytearray(3)
        self.read(mark, 0, 3)
        return 3 if mark == b"\xef\xbb\xbf" else 0

    def same(self) -> bool:
        """Whether nobody wrote to the file since it was opened."""
        return self._state() == self._before

    def changed(self) -> InputError:
        return InputError(
            f"{self.path} was written to while it was read", cure="read it again when it is complete"
        )

    def endless(self) -> InputError:
        return InputError(
            f"{self.path} has a line of more than {LONGEST >> 20} MiB",
            cure="give rows of a table, a line each",
        )

    def _state(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns

    def close(self) -> None:
        if self._unpacked is not None:
            self._unpacked.close()

    def _unpack(self) -> IO[bytes] | None:
        if os.pread(self._descriptor, 2, 0) != _GZIP:
            return None
        # Not into memory: the text is several times larger than the table that is made of it.
        unpacked = tempfile.TemporaryFile()  # noqa: SIM115  `close` closes it
        try:
            with os.fdopen(os.dup(self._descriptor), "rb") as packed, gzip.open(packed) as text:
                shutil.copyfileobj(text, unpacked, _UNPACKED_AT_ONCE)
            unpacked.flush()
        except OSError as error:
            unpacked.close()
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise InputError(
                    f"{self.path} cannot be unpacked in {tempfile.gettempdir()}: {error.strerror}",
                    cure="set TMPDIR to a folder with room, or unpack it first",
                ) from error
            raise
        except BaseException:
            unpacked.close()
            raise
        return unpacked


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Source]:
    """The content of `path`; an InputError if it cannot be read, is empty, or changes before the end."""
    try:
        # A pipe that nobody writes to would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", cure=_CURE) from error
    source: Source | None = None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise InputError(f"{path} is no regular file", cure=_CURE)
        source = Source(path, descriptor)
        if source.size == 0:
            raise InputError(f"{path} is empty", cure=_CURE)
        try:
            yield source
        except InputError as error:
            # Whatever is wrong with the text, this is why.
            if not source.same():
                raise source.changed() from error
            raise
        if not source.same():
            raise source.changed()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is a broken gzip file: {error}", cure="fetch it again") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", cure=_CURE) from error
    finally:
        if source is not None:
            source.close()
        os.close(descriptor)
