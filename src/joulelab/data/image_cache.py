# SPDX-License-Identifier: Apache-2.0
"""Images decoded once, by processes of their own, and mapped ever after: rows of one file of bytes.

The file is made in pieces. A piece that is done has a mark with its sum, so that a build that was stopped
goes on with the rest, and a piece that was damaged later is found and made again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import selectors
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from joulelab.data import cache_folder, image_decode, image_folder
from joulelab.data.image_decode import PIXELS, PLAN, Plan, mapped, mark, read_plan
from joulelab.errors import InputError

VERSION = 1
PIECE_BYTES = 64 << 20  # at most, in one piece
PIECES = 64  # at least, where there are enough images: for several processes, and to go on with
FEW = 3  # images that may be skipped however few there are
SHARE = 0.01  # of the images that may be skipped
CHECKED_BYTES = 2 << 30  # up to here the sums are compared whenever a cache is opened

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Images:
    """Decoded images: `pixels` of (rows, size, size, 3) mapped from the file, and what they show."""

    pixels: np.ndarray
    labels: np.ndarray  # of every row
    rows: np.ndarray  # that hold an image; the others could not be decoded
    classes: tuple[str, ...]
    skipped: dict[str, str]  # file to what was wrong with it


def open_images(root: Path, *, size: int, workers: int = 0, progress: Progress | None = None) -> Images:
    """The images of `root`, each a square of `size` pixels; decoded now where that has not been done yet."""
    listing = image_folder.scan(root)
    folder = _place(listing, size=size)
    plan = _planned(folder, listing, size=size)
    with _locked(folder):
        missing = [n for n in range(plan.pieces) if not _sound(folder, plan, n)]
        if missing:
            most = min(workers or os.cpu_count() or 1, len(missing))
            _build(folder, plan, workers=most, progress=progress)
    skipped: dict[str, str] = {}
    for number in range(plan.pieces):
        skipped |= json.loads(mark(folder, number).read_text(encoding="utf-8"))["skipped"]
    _complain(root, skipped, count=len(plan.files))
    rows = [row for row, file in enumerate(plan.files) if file not in skipped] if skipped else None
    return Images(
        # Copy on write: nobody writes, and torch wants an array that could be written to.
        pixels=mapped(folder, plan, range(len(plan.files)), mode="c"),
        labels=listing.labels,
        rows=np.arange(len(plan.files)) if rows is None else np.array(rows),
        classes=listing.classes,
        skipped=skipped,
    )


def _place(listing: image_folder.Listing, *, size: int) -> Path:
    """The folder of this cache: beside the images, or where the user keeps such things."""
    key = hashlib.sha256(f"{VERSION} {size} {listing.root.resolve()} {listing.state}".encode()).hexdigest()
    name = f"images-{size}-{key[:16]}"
    places = cache_folder.candidates(listing.root / "any")
    for place in places:
        if (place / name / PLAN).exists():
            return place / name
    for place in places:
        if cache_folder.writable(place):
            (place / name).mkdir(exist_ok=True)
            return place / name
    raise InputError(
        f"no folder for decoded images can be written: {', '.join(str(place) for place in places)}",
        cure=f"name one in the variable {cache_folder.VARIABLE}",
    )


def _planned(folder: Path, listing: image_folder.Listing, *, size: int) -> Plan:
    if (folder / PLAN).exists():
        return read_plan(folder)
    most = max(1, PIECE_BYTES // (size * size * 3))
    content = {
        "root": str(listing.root.resolve()),
        "size": size,
        "files": listing.files,
        "piece": max(1, min(most, -(-len(listing.files) // PIECES))),
    }
    beside = folder / f".{PLAN}.{os.getpid()}"
    beside.write_text(json.dumps(content), encoding="utf-8")
    beside.replace(folder / PLAN)
    return read_plan(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process builds; another one that wants the same images waits for it."""
    with (folder / "lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _sound(folder: Path, plan: Plan, number: int) -> bool:
    """Whether a piece is done, and holds what it held then; a mark that lies is taken away."""
    if not mark(folder, number).exists():
        return False
    pixels = folder / PIXELS
    each = plan.size * plan.size * 3
    there = pixels.exists() and pixels.stat().st_size == len(plan.files) * each
    if there and len(plan.files) * each > CHECKED_BYTES:
        return True
    content = json.loads(mark(folder, number).read_text(encoding="utf-8"))
    if there and zlib.crc32(mapped(folder, plan, plan.rows(number), mode="r").data) == content["crc32"]:
        return True
    mark(folder, number).unlink()
    return False


def _build(folder: Path, plan: Plan, *, workers: int, progress: Progress | None) -> None:
    if len(plan.files) == 0:
        return
    with (folder / PIXELS).open("ab") as file:
        file.truncate(len(plan.files) * plan.size * plan.size * 3)
    left = [n for n in range(plan.pieces) if not mark(folder, n).exists()]
    done = len(plan.files) - sum(len(plan.rows(n)) for n in left)
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
                    # A line is short and written whole: no chunk ends inside one.
                    done += sum(int(line) for line in chunk.split())
                    if progress is not None and chunk:
                        progress(done, len(plan.files))
        codes = [process.wait() for process in processes]
    if any(codes) or any(not mark(folder, n).exists() for n in range(plan.pieces)):
        raise InputError(
            f"{plan.root}: decoding stopped ({', '.join(map(str, codes))} are the exit statuses)",
            cure="what is above says why; the same command goes on where this one stopped",
        )


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


def _complain(root: Path, skipped: dict[str, str], *, count: int) -> None:
    if len(skipped) > max(FEW, SHARE * count) or len(skipped) == count:
        some = "; ".join(f"{file}: {words}" for file, words in list(skipped.items())[:3])
        raise InputError(
            f"{root}: {len(skipped)} of {count} images cannot be decoded: {some}",
            cure=f"mend or remove them: at most {max(FEW, round(SHARE * count))} are passed over",
        )
