# SPDX-License-Identifier: Apache-2.0
"""Checkpoints on the disk: a folder each, in it one file a rank, and beside each file a seal.

The seal is written after its file and holds its length and its sum. A checkpoint is whole when every rank has
a seal and every file is what its seal says; whatever died in between, the one before it is still there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

import msgspec
import torch

from joulelab.records.layout import SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

CHUNK = 1 << 20


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """What a file of a rank is, and what it belongs to."""

    spec: str  # identity of the trial
    torch: str
    repeat: int
    step: int
    rank: int = 0
    ranks: int = 1
    bytes: int = 0
    sha256: str = ""
    schema: int = SCHEMA


class Torn(Exception):  # noqa: N818  no error: the checkpoint before it is taken
    """Why a checkpoint is none, in words."""


def place(root: Path, *, repeat: int, step: int) -> Path:
    return root / f"repeat-{repeat}-step-{step:09d}"


def write(root: Path, seal: Seal, content: dict[str, Any]) -> Path:
    """One rank's part of a checkpoint. When this returns it will outlive a loss of power."""
    folder = place(root, repeat=seal.repeat, step=seal.step)
    folder.mkdir(parents=True, exist_ok=True)
    file = _file(folder, seal.rank)
    beside = file.with_name(f".{file.name}.new")
    try:
        with beside.open("wb") as out:
            summing = _Summing(out)
            torch.save(content, cast("IO[bytes]", summing))  # of a file it wants `write` and `flush`
            out.flush()
            os.fsync(out.fileno())
    except BaseException:
        beside.unlink(missing_ok=True)  # on a full disk it would be in the way of everything else
        raise
    beside.replace(file)
    sealed = msgspec.structs.replace(seal, bytes=summing.count, sha256=summing.sum.hexdigest())
    write_whole(_seal(folder, seal.rank), msgspec.json.encode(sealed))
    _settle(root)
    return folder


def write_whole(path: Path, data: bytes) -> None:
    """The file is the old one or the new one, and on the disk when this returns."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    beside.replace(path)
    _settle(path.parent)


def found(root: Path, *, repeat: int) -> list[Path]:
    """The folders of a repeat's checkpoints, the latest first, whole or not."""
    return sorted(root.glob(f"repeat-{repeat}-step-*"), reverse=True)


def seals(folder: Path) -> list[Seal]:
    """The seal of every rank, each file having been compared with its own; `Torn` where one is not right."""
    first = _read_seal(folder, 0)
    all_of_them = [first, *(_read_seal(folder, rank) for rank in range(1, first.ranks))]
    for seal in all_of_them:
        _compare(_file(folder, seal.rank), seal)
    return all_of_them


def read(folder: Path, rank: int) -> dict[str, Any]:
    """What a rank wrote. Tensors, numbers and text and nothing else: a file cannot make this run anything."""
    try:
        content = torch.load(_file(folder, rank), map_location="cpu", weights_only=True)
    except Exception as error:  # torch names no type for what it refuses
        words = str(error).strip().splitlines() or [type(error).__name__]
        raise Torn(f"{_file(folder, rank).name} holds what is not loaded: {words[0][:200]}") from error
    if not isinstance(content, dict):
        raise Torn(f"{_file(folder, rank).name} holds something else")
    return content


def prune(root: Path, *, repeat: int, keep: int) -> None:
    """Keep the last few of this repeat, and none of the others."""
    kept = set(found(root, repeat=repeat)[:keep])
    for folder in root.glob("repeat-*-step-*"):
        if folder not in kept:
            remove(folder)


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _file(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.pt"


def _seal(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.json"


def _read_seal(folder: Path, rank: int) -> Seal:
    try:
        return msgspec.json.decode(_seal(folder, rank).read_bytes(), type=Seal)
    except OSError as error:
        raise Torn(f"it was not written to its end: no {_seal(folder, rank).name}") from error
    except msgspec.MsgspecError as error:
        raise Torn(f"{_seal(folder, rank).name} is damaged: {error}") from error


def _compare(file: Path, seal: Seal) -> None:
    total, count = hashlib.sha256(), 0
    try:
        with file.open("rb") as opened:
            while chunk := opened.read(CHUNK):
                total.update(chunk)
                count += len(chunk)
    except OSError as error:
        raise Torn(f"{file.name} cannot be read: {error.strerror}") from error
    if count != seal.bytes:
        raise Torn(f"{file.name} has {count} bytes and should have {seal.bytes}")
    if total.hexdigest() != seal.sha256:
        raise Torn(f"{file.name} has changed since it was written: its sum is another")


def _settle(folder: Path) -> None:
    """Names are on the disk when the folder that holds them is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Summing:
    """Passes bytes on and adds them up, so that the file need not be read again."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.sum = hashlib.sha256()
        self.count = 0

    def write(self, data: Any) -> int:
        self.sum.update(data)
        self.count += len(data)
        return self._out.write(data)

    def flush(self) -> None:
        self._out.flush()
