# SPDX-License-Identifier: Apache-2.0
"""Squares cut out of pictures once: bytes in a file that is mapped from then on.

An entry is a folder NAME.WHAT.tiles: `pixels.npy`, `boxes.npy`, and `index.json`, which is written last and
says what the others were made of. While it is made there are `pixels.part` and `done.jsonl`, one line for
each picture that is in it, so that whoever is stopped goes on where he was.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from joulelab.data import pictures
from joulelab.data.labelled_pictures import TRAIN, VALIDATE, Annotations, Picture
from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from joulelab.data.tiling import Cut, Square

VERSION = 1  # of what is cut, and of how it is kept
GREY = 114  # where there is no picture
SUFFIX = ".tiles"


@dataclass(frozen=True, kw_only=True)
class Tiles:
    """Squares and the boxes in them."""

    pixels: Any  # rows x 3 x side x side bytes, mapped; some rows may mean nothing
    boxes: Any  # row, class, x1, y1, x2, y2 in pixels of the square; in the order of the rows
    training: Any  # row numbers
    validation: Any
    classes: tuple[str, ...]
    dropped: dict[str, int]
    broken: dict[str, str]


def name(folder: Path, key: dict[str, Any]) -> str:
    text = json.dumps(key, sort_keys=True).encode()
    return f"{folder.name[:100]}.{hashlib.blake2b(text, digest_size=8).hexdigest()}{SUFFIX}"


def find(where: Path, *, key: dict[str, Any]) -> Tiles | None:
    """What lies in `where`, mapped; None if it is not there, not whole, or made of something else."""
    try:
        index = json.loads((where / "index.json").read_text(encoding="utf-8"))
        pixels = np.load(where / "pixels.npy", mmap_mode="c")
        boxes = np.load(where / "boxes.npy")
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(index, dict) or index.get("key") != key or len(pixels) != index["rows"]:
        return None
    rows: dict[str, list[int]] = {TRAIN: [], VALIDATE: []}
    for entry in index["pictures"]:
        if not entry["broken"]:
            rows[entry["part"]] += range(entry["first"], entry["first"] + entry["rows"])
    wrong = {entry["name"]: entry["broken"] for entry in index["pictures"] if entry["broken"]}
    return Tiles(
        pixels=pixels,
        boxes=boxes,
        training=np.array(rows[TRAIN], np.int64),
        validation=np.array(rows[VALIDATE], np.int64),
        classes=tuple(index["classes"]),
        dropped=index["dropped"],
        broken=index["broken"] | wrong,
    )


def made_of(where: Path) -> tuple[str, str]:
    """The folder of the pictures in `where`, and its state: current, outdated or broken."""
    try:
        key = json.loads((where / "index.json").read_text(encoding="utf-8"))["key"]
        folder, files = str(key["folder"]), key["files"]
    except (OSError, ValueError, TypeError, KeyError):
        return "", "broken"
    if find(where, key=key) is None:
        return "", "broken"
    for name, size, changed_ns in files:
        try:
            state = (Path(folder) / name).stat()
        except OSError:
            return folder, "outdated"
        if [state.st_size, state.st_mtime_ns] != [size, changed_ns]:
            return folder, "outdated"
    return folder, "current"


def lock_of(where: Path) -> Path:
    """What is held by whoever builds `where`."""
    return where / "lock"


def build(
    where: Path,
    make: Callable[[], Annotations],
    *,
    key: dict[str, Any],
    cut: Cut,
    threads: int | None = None,
) -> None:
    """Cut what `make` finds into `where`, unless another process does or has done so in the meantime."""
    where.mkdir(parents=True, exist_ok=True)
    with _alone(lock_of(where)):
        if find(where, key=key) is not None:
            return
        told = make()
        _check(told, {})
        plans = [cut.squares(picture.width, picture.height) for picture in told.pictures]
        firsts = np.cumsum([0, *(len(plan) for plan in plans)]).tolist()
        broken = _fill(where, told, plans, firsts=firsts, side=cut.side, threads=threads)
        _check(told, broken)
        _boxes(where, told, plans, firsts=firsts, cut=cut)
        index = {
            "key": key,
            "rows": firsts[-1],
            "classes": told.classes,
            "dropped": dict(told.dropped),
            "broken": dict(told.broken),
            "pictures": [
                {"name": picture.path.name, "part": picture.part, "first": first, "rows": len(plan)}
                | {"broken": broken.get(number, "")}
                for number, (picture, plan, first) in enumerate(
                    zip(told.pictures, plans, firsts[:-1], strict=True)
                )
            ],
        }
        (where / "pixels.part").replace(where / "pixels.npy")
        with _whole(where / "index.json") as file:
            file.write(json.dumps(index).encode())
        (where / "done.jsonl").unlink(missing_ok=True)


def _fill(
    where: Path,
    told: Annotations,
    plans: Sequence[Sequence[Square]],
    *,
    firsts: Sequence[int],
    side: int,
    threads: int | None,
) -> dict[int, str]:
    """All squares into pixels.part; which pictures are broken, by their number."""
    part, journal = where / "pixels.part", where / "done.jsonl"
    shape = (firsts[-1], 3, side, side)
    done = _done(journal) if part.exists() else {}
    if done:
        out = np.load(part, mmap_mode="r+")
    if not done or out.shape != shape:
        done = {}
        journal.unlink(missing_ok=True)
        out = np.lib.format.open_memmap(part, mode="w+", dtype=np.uint8, shape=shape)

    def one(number: int) -> tuple[int, str]:
        picture: Picture = told.pictures[number]
        try:
            seen = pictures.pixels(picture.path, width=picture.width, height=picture.height)
        except pictures.BrokenPictureError as error:
            return number, str(error)
        for row, square in enumerate(plans[number], start=firsts[number]):
            out[row] = square_of(seen, square, side=side)
        return number, ""

    waiting = [number for number in range(len(plans)) if number not in done]
    pool = ThreadPoolExecutor(threads or os.cpu_count())
    try:
        with journal.open("a", encoding="utf-8") as lines:
            for number, problem in pool.map(one, waiting):
                # Only after its pixels are in the mapping, which outlives the process.
                lines.write(json.dumps([number, problem]) + "\n")
                lines.flush()
                done[number] = problem
    finally:
        pool.shutdown(cancel_futures=True)  # who is stopped does not wait for all that he had asked for
    out.flush()
    return {number: problem for number, problem in done.items() if problem}


def square_of(picture: Any, square: Square, *, side: int) -> Any:
    """3 x side x side bytes of the picture, grey where it has none."""
    seen = picture[square.y : square.y + square.height, square.x : square.x + square.width]
    if square.zoom != 1:
        width, height = (max(1, round(square.zoom * length)) for length in (square.width, square.height))
        seen = pictures.resized(seen, width=width, height=height)
    out = np.full((side, side, 3), GREY, np.uint8)
    out[square.top : square.top + seen.shape[0], square.left : square.left + seen.shape[1]] = seen
    return out.transpose(2, 0, 1)


def _boxes(
    where: Path, told: Annotations, plans: Sequence[Sequence[Square]], *, firsts: Sequence[int], cut: Cut
) -> None:
    found = [np.zeros((0, 6), np.float32)]
    for picture, plan, first in zip(told.pictures, plans, firsts[:-1], strict=True):
        for row, square in enumerate(plan, start=first):
            inside = cut.boxes(square, picture.boxes)
            found.append(np.column_stack((np.full(len(inside), row, np.float32), inside)))
    # float32 holds whole numbers up to 16 million, which is more rows than anybody cuts.
    with _whole(where / "boxes.npy") as file:
        np.save(file, np.concatenate(found, dtype=np.float32))


def _check(told: Annotations, broken: dict[int, str]) -> None:
    wrong = {**told.broken, **{told.pictures[number].path.name: why for number, why in broken.items()}}
    count = len(told.pictures) + len(told.broken)
    if len(wrong) > max(3, count // 20):
        shown = "; ".join(f"{path}: {why}" for path, why in list(wrong.items())[:5])
        raise InputError(
            f"{len(wrong)} of {count} images cannot be used, more than one in twenty: {shown}",
            cure="copy the images anew, or take those out that are broken",
        )
    for part, needed_for in ((TRAIN, "train on"), (VALIDATE, "validate on")):
        if not any(
            len(picture.boxes) and picture.part == part and number not in broken
            for number, picture in enumerate(told.pictures)
        ):
            raise InputError(
                f"no image with a box is left to {needed_for}; left out: {dict(told.dropped) or 'none'}",
                cure="give more images, with labels of them",
            )


def _done(journal: Path) -> dict[int, str]:
    """The pictures that an earlier process had finished; a torn last line is none."""
    done: dict[int, str] = {}
    with contextlib.suppress(OSError):
        for line in journal.read_text(encoding="utf-8").splitlines():
            try:
                number, problem = json.loads(line)
            except ValueError:
                break
            done[int(number)] = str(problem)
    return done


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name when it is complete and on the disk."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("a") as held:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
