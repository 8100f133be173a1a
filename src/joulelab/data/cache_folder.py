# SPDX-License-Identifier: Apache-2.0
"""Where parsed tables are kept, what lies there, and how it is cleared away.

An entry is NAME.WHERE.WHAT.npy: the name of the CSV file, a sum of its path and the columns asked for, a sum
of the state that it was in. WHERE.lock is held by whoever builds it, *.part is what he has not published yet.
Folders NAME.WHAT.tiles are those of `detection_cache`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from joulelab.data import cache_file, detection_cache
from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BESIDE = ".joulelab-cache"  # in the folder of the CSV file
VARIABLE = "JOULELAB_CACHE"


@dataclass(frozen=True, kw_only=True)
class Entry:
    path: Path
    size: int
    source: str  # the CSV file or the folder of pictures; empty if the entry is broken
    state: str  # current, outdated, broken


def own() -> Path:
    """The folder for what cannot be kept beside the CSV file."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "joulelab" / "tables"


def candidates(csv: Path) -> list[Path]:
    """Where a table made of `csv` may lie, the best place first."""
    return [own()] if os.environ.get(VARIABLE) else [csv.parent / BESIDE, own()]


def writable(folder: Path) -> bool:
    """Whether files can be made in `folder`, which is made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def below(folders: Iterable[Path]) -> list[Path]:
    """The cache folders at or below `folders`."""
    found: dict[Path, None] = {}
    for folder in folders:
        if folder.name == BESIDE or folder == own():
            found[folder] = None
        found.update(dict.fromkeys(sorted(path for path in folder.rglob(BESIDE) if path.is_dir())))
    return list(found)


def entries(folders: Iterable[Path]) -> Iterator[Entry]:
    """What is kept in `folders`."""
    for folder in folders:
        for path in sorted(folder.glob("*.npy")):
            key = cache_file.made_of(path)
            source = str(key["path"]) if key else ""
            yield Entry(path=path, size=path.stat().st_size, source=source, state=_state(key))
        for path in sorted(folder.glob(f"*{detection_cache.SUFFIX}")):
            source, state = detection_cache.made_of(path)
            size = sum(file.stat().st_size for file in path.iterdir())
            yield Entry(path=path, size=size, source=source, state=state)


def clear(folders: Iterable[Path]) -> tuple[int, int]:
    """Remove every entry, and what a process that ended left behind; how many files and bytes.

    Who has an entry mapped keeps it. What is being built at the moment is left alone; who waits for a lock
    that is removed here builds as well, which costs his time and nothing else.
    """
    files = size = 0
    for folder in folders:
        try:
            removed = _clear(folder)
        except OSError as error:
            raise InputError(
                f"{folder}: what is kept there cannot be removed: {error.strerror or error}",
                cure="do it as its owner, where the folder can be written",
            ) from error
        files, size = files + removed[0], size + removed[1]
    return files, size


def _clear(folder: Path) -> tuple[int, int]:
    files = size = 0
    for path in sorted(folder.glob("*.npy")):
        size += path.stat().st_size
        path.unlink(missing_ok=True)
        files += 1
    for tiles in sorted(folder.glob(f"*{detection_cache.SUFFIX}")):
        with detection_cache.lock_of(tiles).open("a") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            inside = [file for file in tiles.iterdir() if file != detection_cache.lock_of(tiles)]
            size += sum(file.stat().st_size for file in inside)
            files += len(inside)
            shutil.rmtree(tiles, ignore_errors=True)
    for lock in sorted(folder.glob("*.lock")):
        with lock.open("a") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            for path in folder.glob(f"{lock.stem}.*.part"):
                size += path.stat().st_size
                path.unlink(missing_ok=True)
                files += 1
            lock.unlink(missing_ok=True)
    return files, size


def _state(key: dict[str, object] | None) -> str:
    if key is None:
        return "broken"
    try:
        status = Path(str(key["path"])).stat()
    except OSError:
        return "outdated"
    return "current" if [status.st_size, status.st_mtime_ns] == [key["size"], key["mtime_ns"]] else "outdated"
