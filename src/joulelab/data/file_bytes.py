# SPDX-License-Identifier: Apache-2.0
"""A file as one buffer of bytes: mapped as it lies on the disk, or unpacked if it is gzip."""

from __future__ import annotations

import gzip
import mmap
import os
import zlib
from typing import TYPE_CHECKING

from joulelab.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

Source = mmap.mmap | bytes

_GZIP = b"\x1f\x8b"
_CURE = "give a file of text with a header line, plain or gzip"


def source(path: Path) -> Source:
    """The content of `path`. A mapping is not closed by hand: arrays that look into it keep it alive."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise InputError(f"{path} is empty", cure=_CURE)
            packed = file.read(2) == _GZIP
            if not packed:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with gzip.open(path) as unpacked:
            return unpacked.read()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is a broken gzip file: {error}", cure="fetch it again") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", cure=_CURE) from error


def stamp(path: Path) -> tuple[int, int]:
    """What changes when somebody writes to the file: its size and its time."""
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", cure=_CURE) from error
    return status.st_size, status.st_mtime_ns
