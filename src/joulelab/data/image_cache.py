# SPDX-License-Identifier: Apache-2.0
"""Images decoded once, by processes of their own, and mapped ever after: rows of one file of bytes.

The file is made in pieces. A piece that is done has a mark with its sum, so that a build that was stopped
goes on with the rest, and a piece that was damaged later is found and made again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import mmap
import os
import selectors
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from joulelab.data import cache_folder, image_decode, image_folder, pictures
from joulelab.data.image_decode import PIXELS, SUFFIX, Plan, lock_of, mapped, mark, write_plan
from joulelab.errors import InputError

VERSION = 1
PIECE_BYTES = 64 << 20  # at most, in one piece
PIECES = 64  # at least, where there are enough images: for several processes, and to go on with
FEW = 3  # images that may be skipped however few there are
SHARE = 0.01  # of the images that may be skipped
NAMED = 5  # of them, in a message; the marks of the pieces have them all
CHECKED_BYTES = 2 << 30  # up to here the sums are compared whenever a cache is opened
NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # named by Python since 3.13

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Images:
    """Decoded images: `pixels` of (rows, size, size, 3) mapped from the file, and what they show."""

    pixels: np.ndarray
    labels: np.ndarray  # of every row
    rows: np.ndarray  # that hold an image; the others could not be decoded
    classes: tuple[str, ...]
    skipped: dict[str, str]  # file to what was wrong with it
    note: str  # the same in words, for whoever reads a figure made with the others; empty if all are there


def open_images(root: Path, *, size: int, workers: int = 0, progress: Progress | None = None) -> Images:
    """The images of `root`, each a square of `size` pixels; decoded now where that has not been done yet."""
    pictures.needed()
    listing = image_folder.scan(root)
    plan = _planned(listing, size=size)
    places = _places(listing, plan)
    # What is there already is taken as it is: it may lie where nothing can be written, not even a lock.
    folder = next((place for place in places if not _missing(place, plan)), None)
    if folder is None:
        folder = _writable(places)
        with _locked(folder):
            missing = _missing(folder, plan)
            if missing:
                _build(folder, plan, missing, workers=workers or _usable(), progress=progress)
    skipped: dict[str, str] = {}
    for number in range(plan.pieces):
        skipped |= _marked(folder, number)["skipped"]
    rows = np.array([row for row, file in enumerate(plan.files) if file not in skipped], np.int64)
    _complain(root, skipped, listing=listing, rows=rows)
    return Images(
        pixels=_table(folder, plan),
        labels=listing.labels,
        rows=rows,
        classes=listing.classes,
        skipped=skipped,
        note=_note(root, skipped, count=len(plan.files)),
    )


def _planned(listing: image_folder.Listing, *, size: int) -> Plan:
    most = max(1, PIECE_BYTES // (size * size * 3))
    return Plan(
        root=str(listing.root.resolve()),
        size=size,
        files=listing.files,
        piece=max(1, min(most, -(-len(listing.files) // PIECES))),
        state=listing.state,
    )


def _places(listing: image_folder.Listing, plan: Plan) -> list[Path]:
    """Where this cache may lie: beside the images, or where the user keeps such things."""
    key = hashlib.sha256(f"{VERSION} {plan.size} {plan.root} {plan.state}".encode()).hexdigest()
    name = f"{Path(plan.root).name[:100]}.{plan.size}px.{key[:16]}{SUFFIX}"
    return [place / name for place in cache_folder.candidates(listing.root / "any")]


def _writable(places: Sequence[Path]) -> Path:
    for place in places:
        if cache_folder.writable(place):
            return place
    raise InputError(
        f"no folder for decoded images can be written: {', '.join(str(place.parent) for place in places)}",
        cure=f"name one in the variable {cache_folder.VARIABLE}",
    )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process builds; another one that wants the same images waits for it."""
    with lock_of(folder).open("a") as held:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(held, fcntl.LOCK_EX)
        folder.mkdir(parents=True, exist_ok=True)  # it may have been cleared away meanwhile
        yield


def _marked(folder: Path, number: int) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(mark(folder, number).read_text(encoding="utf-8"))
    return content


def _missing(folder: Path, plan: Plan) -> list[int]:
    """The pieces that are not done, or do not hold any more what they held then."""
    pixels = folder / PIXELS
    if not pixels.exists() or pixels.stat().st_size != plan.bytes:
        return list(range(plan.pieces))
    return [number for number in range(plan.pieces) if not _sound(folder, plan, number)]


def _sound(folder: Path, plan: Plan, number: int) -> bool:
    try:
        content = _marked(folder, number)
        wanted, _ = int(content["crc32"]), content["skipped"]
    except (OSError, ValueError, TypeError, KeyError):
        return False
    if plan.bytes > CHECKED_BYTES:
        return True
    return zlib.crc32(mapped(folder, plan, plan.rows(number), mode="r").data) == wanted


def _usable() -> int:
    return len(os.sched_getaffinity(0))


def _build(
    folder: Path, plan: Plan, missing: Sequence[int], *, workers: int, progress: Progress | None
) -> None:
    for number in missing:
        mark(folder, number).unlink(missing_ok=True)  # it lies
    _make_room(folder, plan)
    write_plan(folder, plan)
    workers = min(workers, len(missing))
    done = len(plan.files) - sum(len(plan.rows(n)) for n in missing)
    if progress is not None:
        progress(done, len(plan.files))
    rest: dict[int, bytes] = {}
    with ExitStack() as ended:
        processes = [ended.enter_context(_process(folder, turn=turn, of=workers)) for turn in range(workers)]
        with selectors.DefaultSelector() as selector:
            for process in processes:
                assert process.stdout is not None
                selector.register(process.stdout, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    chunk = os.read(key.fd, 1 << 12)
                    if not chunk:
                        selector.unregister(key.fileobj)
                    *lines, rest[key.fd] = (rest.get(key.fd, b"") + chunk).split(b"\n")
                    done += sum(int(line) for line in lines)
                    if progress is not None and lines:
                        progress(done, len(plan.files))
        codes = [process.wait() for process in processes]
    if any(codes) or any(not mark(folder, n).exists() for n in range(plan.pieces)):
        raise InputError(
            f"{plan.root}: decoding stopped ({', '.join(map(str, codes))} are the exit statuses)",
            cure="what is above says why; the same command goes on where this one stopped",
        )


def _make_room(folder: Path, plan: Plan) -> None:
    """The file in its full length. A disk that gets full later would end a decoder without a word."""
    with (folder / PIXELS).open("ab") as file:
        status = os.fstat(file.fileno())
        free = shutil.disk_usage(folder).free
        if plan.bytes - 512 * status.st_blocks > free:
            raise InputError(
                f"the decoded images of {plan.root} take {plan.bytes / 1e9:.1f} GB, and where {folder} is "
                f"{free / 1e9:.1f} GB are free",
                cure=f"make room, or name a folder that has it in the variable {cache_folder.VARIABLE}",
            )
        file.truncate(plan.bytes)


@contextmanager
def _process(folder: Path, *, turn: int, of: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-P", "-m", image_decode.__name__, str(folder), str(turn), str(of)]
    paths = [str(Path(__file__).parents[2]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, dict.fromkeys(paths)))}
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment
    ) as process:
        try:
            yield process
        except BaseException:
            process.terminate()
            raise


def _table(folder: Path, plan: Plan) -> np.ndarray:
    """All pixels. Nobody writes to them, but torch wants an array that could be written to: so pages would be
    copied then, and no memory is set aside for that: the file may be larger than all there is."""
    with (folder / PIXELS).open("rb") as file:
        access = mmap.PROT_READ | mmap.PROT_WRITE
        held = mmap.mmap(file.fileno(), plan.bytes, flags=mmap.MAP_PRIVATE | NO_RESERVE, prot=access)
    return np.ndarray((len(plan.files), plan.size, plan.size, 3), np.uint8, held)


def _note(root: Path, skipped: dict[str, str], *, count: int) -> str:
    if not skipped:
        return ""
    some = "; ".join(f"{file} ({words})" for file, words in list(skipped.items())[:NAMED])
    more = f"; and {len(skipped) - NAMED} more" if len(skipped) > NAMED else ""
    return f"{root}: {len(skipped)} of {count} images cannot be decoded and are left out: {some}{more}"


def _complain(
    root: Path, skipped: dict[str, str], *, listing: image_folder.Listing, rows: np.ndarray
) -> None:
    most = max(FEW, int(SHARE * len(listing.files)))
    note = _note(root, skipped, count=len(listing.files))
    if len(skipped) > most:
        raise InputError(note, cure=f"mend or remove them: at most {most} are passed over")
    left = set(listing.labels[rows].tolist())
    without = [name for label, name in enumerate(listing.classes) if label not in left]
    if without:
        raise InputError(
            f"no image of class {', '.join(without[:NAMED])} can be decoded: {note}",
            cure="mend its images, or remove the folder",
        )
