# SPDX-License-Identifier: Apache-2.0
"""CSV files parsed once: the array is kept in a file and mapped the next time.

Any number of processes may begin at once, on one node or on several: one builds, the others wait for it.
Where that cannot be arranged (a file system without locks) each builds, and the first one to be ready wins.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import time
import uuid
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joulelab.data import cache_file, cache_folder, labelled_csv, wide_csv
from joulelab.data.labelled import Floats, Labelled
from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Of what the parsers make of a file: a table that an older one made is not taken.
VERSION = 1
# File systems date a change to the tick of a clock: within one, two changes look like one.
_TICK_NS = 20_000_000
# A builder that has not touched his file for so long was killed.
_ABANDONED_S = 3600.0
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def read(path: Path | str, *, threads: int | None = None) -> Floats:
    """Like `wide_csv.read`, from the cache if it is there."""

    def parse() -> Labelled:
        return Labelled(names=(), values=wide_csv.read(path, threads=threads), texts={})

    return _cached(Path(path), {"reader": "wide"}, parse).values


def read_labelled(
    path: Path | str,
    *,
    text: Sequence[str] = (),
    numbers: Sequence[str] | None = None,
    separator: str = ",",
    threads: int | None = None,
) -> Labelled:
    """Like `labelled_csv.read`, from the cache if it is there."""
    asked = {
        "text": list(text),
        "numbers": None if numbers is None else list(numbers),
        "separator": separator,
    }

    def parse() -> Labelled:
        return labelled_csv.read(path, text=text, numbers=numbers, separator=separator, threads=threads)

    return _cached(Path(path), {"reader": "labelled", **asked}, parse)


def _cached(path: Path, asked: dict[str, Any], parse: Callable[[], Labelled]) -> Labelled:
    key = _key(path, asked)
    where, name = _names(key)
    folders = cache_folder.candidates(Path(key["path"]))
    for folder in folders:
        found = cache_file.read(folder / name, key=key)
        if found is not None:
            return found
    places = [folder for folder in folders if cache_folder.writable(folder)]
    if not places:
        tried = " nor in ".join(str(folder) for folder in folders)
        return _uncached(path, parse(), why=f"it cannot be written in {tried}")
    folder = places[0]
    with _alone(folder / f"{where}.lock", changed_ns=key["mtime_ns"]):
        # Somebody else may have built it while this process waited.
        found = cache_file.read(folder / name, key=key)
        if found is not None:
            return found
        _sweep(folder, where)
        table = parse()
        # If the file changed before it was opened, the table is not of what the key says.
        if _key(path, asked) != key:
            raise InputError(
                f"{path} was written to while it was read", cure="read it again when it is complete"
            )
        try:
            _publish(folder / f"{where}.{uuid.uuid4().hex}.part", folder / name, table, key=key)
        except OSError as error:
            return _uncached(path, table, why=f"{folder}: {error.strerror or error}")
    return cache_file.read(folder / name, key=key) or table


def _key(path: Path, asked: dict[str, Any]) -> dict[str, Any]:
    try:
        status = path.stat()
        real = path.resolve(strict=True)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", cure="give a CSV file") from error
    return {
        "path": str(real),
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "version": VERSION,
        "dtype": "float32",
        **asked,
    }


def _names(key: dict[str, Any]) -> tuple[str, str]:
    """What all states of a file have in common, and the name of this one."""
    state = {name: key[name] for name in ("size", "mtime_ns", "version")}
    where = _short({name: value for name, value in key.items() if name not in state})
    return where, f"{Path(key['path']).name[:100]}.{where}.{_short(state)}.npy"


def _short(of: dict[str, Any]) -> str:
    text = json.dumps(of, sort_keys=True).encode()
    return hashlib.blake2b(text, digest_size=8).hexdigest()


@contextlib.contextmanager
def _alone(lock: Path, *, changed_ns: int) -> Iterator[None]:
    """Wait until no other process is in here with the same `lock`; without locks, do not wait.

    And until the clock of the file system has moved on since `changed_ns`: a change from now on shows.
    """
    try:
        held = lock.open("a")
    except OSError:
        yield
        return
    with held:
        with contextlib.suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX)
        os.utime(held.fileno())
        if 0 <= os.fstat(held.fileno()).st_mtime_ns - changed_ns < _TICK_NS:
            time.sleep(_TICK_NS / 1e9)
        yield


def _sweep(folder: Path, where: str) -> None:
    """Remove what builders of this table left that were killed, by the clock of the file system."""
    with contextlib.suppress(OSError):
        now_s = (folder / f"{where}.lock").stat().st_mtime
        for part in folder.glob(f"{where}.*.part"):
            if now_s - part.stat().st_mtime > _ABANDONED_S:
                part.unlink(missing_ok=True)


def _publish(part: Path, entry: Path, table: Labelled, *, key: dict[str, Any]) -> None:
    """Whole under its name or not at all; what older states of the CSV file left is removed."""
    where = entry.name.split(".")[-3]
    try:
        with part.open("xb") as file:
            cache_file.write(file, table, key=key)
            file.flush()
            os.fsync(file.fileno())
        for old in entry.parent.glob(f"*.{where}.*.npy"):
            old.unlink(missing_ok=True)
        try:
            os.link(part, entry)
        except FileExistsError:
            pass  # on a file system without locks another was faster
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            part.replace(entry)
        descriptor = os.open(entry.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    finally:
        part.unlink(missing_ok=True)


def _uncached(path: Path, table: Labelled, *, why: str) -> Labelled:
    message = f"{path}: what was read is not kept for the next time: {why}"
    warnings.warn(
        f"{message}; set {cache_folder.VARIABLE} to a folder of yours", RuntimeWarning, stacklevel=4
    )
    return table
