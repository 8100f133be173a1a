# SPDX-License-Identifier: Apache-2.0
"""One parsed table in one file: the numbers as a .npy that can be mapped, and behind it what they mean.

Behind the numbers lie the codes of the columns of text, a JSON object, and a footer with the object's length
and sum. A file without its end is therefore known, and `numpy.load` still opens a whole one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import struct
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from joulelab.data.labelled import Codes, Floats, Labelled, Words

if TYPE_CHECKING:
    from pathlib import Path

_FOOTER = struct.Struct("<Q16s8s")
_MAGIC = b"JLTABLE1"
_POPULATE_READ = 22  # MADV_POPULATE_READ, Linux 5.14


def write(file: IO[bytes], table: Labelled, *, key: dict[str, Any]) -> None:
    """`table` to the empty `file`, with the `key` that says what it was made of."""
    np.lib.format.write_array(file, np.ascontiguousarray(table.values), allow_pickle=False)
    offset = file.tell() - table.values.nbytes
    for words in table.texts.values():
        file.write(words.codes.astype(np.int32).tobytes())
    about = {
        "key": key,
        "offset": offset,
        "shape": table.values.shape,
        "end": file.tell(),
        "names": table.names,
        "words": {name: words.words for name, words in table.texts.items()},
    }
    text = json.dumps(about, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    file.write(text)
    file.write(_FOOTER.pack(len(text), _sum(text), _MAGIC))


def read(path: Path, *, key: dict[str, Any]) -> Labelled | None:
    """The table in `path`, mapped so that what is written to it stays in this process.

    None where there is no such file, where it is broken, or where it was made of something else than `key`.
    """
    try:
        with path.open("rb") as file:
            about = _about(file)
            return None if about is None or about["key"] != key else _table(file, about)
    except OSError:
        return None


def made_of(path: Path) -> dict[str, Any] | None:
    """The key that `path` was written with; None where it is broken or gone."""
    try:
        with path.open("rb") as file:
            about = _about(file)
            return None if about is None else dict(about["key"])
    except OSError:
        return None


def _about(file: IO[bytes]) -> dict[str, Any] | None:
    size = file.seek(0, 2)
    if size < _FOOTER.size:
        return None
    file.seek(size - _FOOTER.size)
    length, told, magic = _FOOTER.unpack(file.read(_FOOTER.size))
    if magic != _MAGIC or length > size - _FOOTER.size:
        return None
    file.seek(size - _FOOTER.size - length)
    text = file.read(length)
    if _sum(text) != told:
        return None
    about: dict[str, Any] = json.loads(text.decode("utf-8", "surrogatepass"))
    return about if about["end"] + length + _FOOTER.size == size else None


def _table(file: IO[bytes], about: dict[str, Any]) -> Labelled:
    rows, columns = about["shape"]
    values: Floats = np.empty((rows, columns), np.float32)
    if columns:  # nothing cannot be mapped
        mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        # All of it is going to be looked at: one call, where a fault for every few pages takes as long again
        # as adding the values up. Older kernels do not know it.
        with contextlib.suppress(OSError):
            mapped.madvise(_POPULATE_READ)
        values = np.frombuffer(mapped, np.float32, rows * columns, about["offset"]).reshape(rows, columns)
    file.seek(about["offset"] + 4 * rows * columns)
    texts = {}
    for name, words in about["words"].items():
        codes: Codes = np.frombuffer(bytearray(file.read(4 * rows)), np.int32)
        texts[name] = Words(codes=codes, words=tuple(words))
    return Labelled(names=tuple(about["names"]), values=values, texts=texts)


def _sum(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()
