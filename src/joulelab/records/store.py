# SPDX-License-Identifier: Apache-2.0
"""Reading and writing the files of a record: whole or not at all, and readable after any death."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from joulelab.errors import RecordError
from joulelab.records.attempts import written
from joulelab.records.layout import SCHEMA, StudyFolder, TrialFolder
from joulelab.records.trial import Result, TrialSpec
from joulelab.records.upgrade import upgrade

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")


def make_folder(path: Path) -> None:
    """`path` as a folder that can be written, or a RecordError before anything has been measured in vain."""
    probe = path / f".probe-{secrets.token_hex(4)}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"x" * 4096)  # a full disk lets an empty file through
        probe.unlink()
    except OSError as error:
        with contextlib.suppress(OSError):  # on a read-only disk even this is an error
            probe.unlink()
        raise _unwritable(path, error) from error


def make_one(path: Path) -> None:
    """`path` as one of many folders below one that `make_folder` has tried; a disk may fill up on the way."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error


def make_trial_folder(path: Path) -> TrialFolder:
    """`path` as a folder for one trial.

    Nothing below a trial is taken for one: in a study, or a folder of trials, it would hide all the others.
    """
    make_folder(path)
    marks = (TrialFolder(path / "any").spec.name, StudyFolder(path / "any").study.name)
    held = [path, *(entry for entry in path.iterdir() if entry.is_dir())]
    if any((entry / mark).exists() for entry in held for mark in marks if (entry, mark) != (path, marks[0])):
        raise RecordError(
            f"{path} holds trials already, and would not show them if it were one itself",
            cure=f"give a folder of its own: {path / 'NAME'}",
        )
    folder = TrialFolder(path)
    alien = [] if folder.spec.exists() or folder.claim.exists() else written(folder)
    if alien:
        # In a trial's folder they would be an earlier attempt's, to be set aside. These are somebody's own.
        raise RecordError(
            f"{path} is no trial and holds {', '.join(file.name for file in alien)}",
            cure=f"give a folder of its own: {path / 'NAME'}",
        )
    return folder


def new_folder(parent: Path, prefix: str) -> Path:
    """A folder of its own below `parent`, named after what is measured, when, and a number if need be."""
    make_folder(parent)
    safe = re.sub(r"[^A-Za-z0-9_.+-]+", "_", prefix).strip("._")[:60] or "trial"
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in itertools.count(1):
        folder = parent / (f"{safe}-{stamp}" + (f"-{number}" if number > 1 else ""))
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError("itertools.count ends never")


def write_json(path: Path, content: object) -> None:
    """The file is the old one or the new one, never half of one."""
    _write(path, msgspec.json.format(_encoded(content), indent=1) + b"\n")


def write_text(path: Path, text: str) -> None:
    """A text for another program; the file is the old one or the new one."""
    _write(path, text.encode(errors="surrogateescape"))


def _write(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise _unwritable(path, error) from error


def _encoded(content: object) -> bytes:
    try:
        return msgspec.json.encode(content)
    except UnicodeEncodeError:
        return msgspec.json.encode(_in_utf8(msgspec.to_builtins(content)))


def _in_utf8(content: Any) -> Any:
    """Arguments and paths may hold bytes that are no UTF-8; JSON may not: there they stand as \\udcNN."""
    if isinstance(content, dict):
        return {_in_utf8(key): _in_utf8(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_in_utf8(value) for value in content]
    return content.encode(errors="backslashreplace").decode() if isinstance(content, str) else content


def read_json(path: Path, kind: type[T]) -> T:
    """The content of `path` as `kind`, upgraded from older schemas; errors name the file and the field."""
    try:
        content = msgspec.json.decode(path.read_bytes())
        if isinstance(content, dict):
            content = upgrade(content, path=path)
        return msgspec.convert(content, kind)
    except FileNotFoundError as error:
        raise RecordError(f"{path} does not exist", cure="name a folder that JouleLab has written") from error
    except OSError as error:
        raise _unreadable(path, error) from error
    except msgspec.MsgspecError as error:
        raise _damaged(path, error) from error


class Lines:
    """A file of JSON lines that only grows.

    A line is written whole, in one call, so a death tears at most the last.
    """

    def __init__(self, path: Path, *, kind: str) -> None:
        self._file = path.open("ab", buffering=0)
        if path.stat().st_size == 0:
            self.append({"schema": SCHEMA, "kind": kind})
        else:
            self._mend(path)

    def _mend(self, path: Path) -> None:
        """After a death the last line may lack its end: what follows must not be glued to it."""
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                self._file.write(b"\n")

    def append(self, line: dict[str, Any]) -> None:
        self._file.write(msgspec.json.encode(line) + b"\n")

    def close(self) -> None:
        self._file.close()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Every whole line after the first, which says the schema.

    A torn line is what a death left: it is passed over.
    """
    if not path.exists():
        return []
    lines = list(_decoded(path))
    if lines and "schema" in lines[0]:
        upgrade(lines[0], path=path)
        return lines[1:]
    return lines


def _decoded(path: Path) -> Iterator[dict[str, Any]]:
    for raw in path.read_bytes().split(b"\n"):
        try:
            content = msgspec.json.decode(raw)
        except msgspec.DecodeError:
            continue
        if isinstance(content, dict):
            yield content


def _damaged(path: Path, error: msgspec.MsgspecError) -> RecordError:
    return RecordError(f"{path} cannot be read: {error}", cure="the record is damaged; run that trial again")


def _unreadable(path: Path, error: OSError) -> RecordError:
    return RecordError(
        f"{path} cannot be read: {error.strerror or error}", cure="make it readable, or name another folder"
    )


def _unwritable(path: Path, error: OSError) -> RecordError:
    cure = {
        errno.ENOSPC: "the disk is full: free some space, or give another folder with --out",
        errno.EDQUOT: "the quota is used up: free some space, or give another folder with --out",
        errno.EROFS: "the file system is read-only: give another folder with --out",
        errno.EACCES: "no permission to write there: give another folder with --out",
        errno.ENOTDIR: "a part of that path is a file: give another folder with --out",
        errno.EEXIST: "that is a file, not a folder: give another folder with --out",
    }.get(error.errno or 0, "give another folder with --out")
    return RecordError(f"{path} cannot be written: {error.strerror or error}", cure=cure)


class _Host(msgspec.Struct):
    """Of host.json, what readers look into: damage there is found here, where it can be said."""

    host: str = ""
    devices: list[dict[str, Any]] = []
    settings: list[dict[str, Any]] = []


class TrialRecord:
    """One trial folder, read as it is asked for."""

    def __init__(self, folder: TrialFolder) -> None:
        self.folder = folder
        self._spec: TrialSpec | None = None
        self._result: Result | None = None

    def __repr__(self) -> str:
        return f"TrialRecord({str(self.folder.path)!r}, state={self.state!r})"

    @property
    def spec(self) -> TrialSpec:
        if self._spec is None:
            self._spec = read_json(self.folder.spec, TrialSpec)
        return self._spec

    @property
    def state(self) -> str:
        """planned, running, done or failed: which files are there says it."""
        if self.folder.done.exists():
            return "done"
        if self.folder.claim.exists():
            # Imported here because a claim needs the record's files, and a reader seldom needs the claim.
            from joulelab.records import claim

            if claim.is_alive(self.folder) or claim.is_locked(self.folder):
                return "running"
            return "failed"
        return "failed" if self.folder.failed.exists() else "planned"

    @property
    def result(self) -> Result | None:
        if self._result is None and self.folder.result.exists():
            self._result = read_json(self.folder.result, Result)
        return self._result

    @property
    def failure(self) -> dict[str, Any]:
        """What the last attempt left when it did not end well; empty otherwise."""
        if self.folder.failed.exists():
            return read_json(self.folder.failed, dict)
        return {"reason": "its process is gone and left no word"} if self.state == "failed" else {}

    @property
    def host(self) -> dict[str, Any]:
        if not self.folder.host.exists():
            return {}
        content = read_json(self.folder.host, dict)
        try:
            msgspec.convert(content, _Host)
        except msgspec.ValidationError as error:
            raise _damaged(self.folder.host, error) from error
        return content

    def windows(self) -> list[dict[str, Any]]:
        return read_lines(self.folder.windows)

    def metrics(self) -> list[dict[str, Any]]:
        return read_lines(self.folder.metrics)


def load_records(path: str | Path) -> list[TrialRecord]:
    """The trials at or below `path` (a trial folder, a study, or a folder of studies), ordered by path."""
    root = Path(path)
    if not root.exists():
        raise RecordError(
            f"{root} does not exist", cure="name a trial folder, a study folder, or a folder of those"
        )
    if not root.is_dir():
        raise RecordError(f"{root} is a file, not a folder", cure="name the folder that it lies in")
    try:
        folders = _trial_folders(root)
    except OSError as error:
        raise _unreadable(Path(error.filename or root), error) from error
    if not folders and TrialFolder(root).windows.exists():
        raise RecordError(
            f"{root} holds windows that a program measured, and no trial",
            cure=f"read {TrialFolder(root).windows}: each line is a window, in JSON",
        )
    if not folders:
        raise RecordError(
            f"{root} holds no trial (no spec.json at or below it)",
            cure="name a folder that `joulelab run`, `study` or `measure` has written",
        )
    return [TrialRecord(TrialFolder(folder)) for folder in sorted(folders)]


def _trial_folders(root: Path) -> list[Path]:
    """Trial folders are not searched inside: a checkpoint or data folder may hold many files."""
    if (root / "spec.json").exists():
        return [root]
    found: list[Path] = []
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                found += _trial_folders(Path(entry.path))
    return found
