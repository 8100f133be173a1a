# SPDX-License-Identifier: Apache-2.0
"""The process that decodes: `python -m joulelab.data.image_decode FOLDER TURN OF`.

`plan.json` in the folder says which images and how large. Each process takes every OF-th piece that is not
done, writes its pixels into `images.u8` where they belong, and marks the piece with a sum of them. It says
the number of images of each piece on its standard output when the piece is done.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from joulelab.data import image_folder, pictures
from joulelab.errors import InputError

PLAN, PIXELS = "plan.json", "images.u8"
SUFFIX = ".images"  # of the folder that holds them


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Where the images come from and in which pieces they are decoded."""

    root: str
    size: int
    files: tuple[str, ...]
    piece: int  # images in one
    state: str  # that the folder was in

    @property
    def pieces(self) -> int:
        return -(-len(self.files) // self.piece)

    @property
    def bytes(self) -> int:
        return len(self.files) * self.size * self.size * 3

    def rows(self, number: int) -> range:
        return range(number * self.piece, min((number + 1) * self.piece, len(self.files)))


def read_plan(folder: Path) -> Plan:
    content = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    return Plan(**{**content, "files": tuple(content["files"])})


def write_plan(folder: Path, plan: Plan) -> None:
    _put(folder / PLAN, asdict(plan))


def mark(folder: Path, number: int) -> Path:
    return folder / f"{number:06}.json"


def lock_of(folder: Path) -> Path:
    """What is held by whoever has images decoded into `folder`."""
    return folder / "lock"


def mapped(folder: Path, plan: Plan, rows: range, *, mode: Any) -> np.ndarray:
    """These rows of the pixels."""
    shape = (len(rows), plan.size, plan.size, 3)
    return np.memmap(folder / PIXELS, np.uint8, mode, rows.start * plan.size * plan.size * 3, shape)


def made_of(where: Path) -> tuple[str, str]:
    """The folder of the images in `where`, and its state: current, outdated or broken."""
    try:
        plan = read_plan(where)
    except (OSError, ValueError, TypeError, KeyError):
        return "", "broken"
    if not all(mark(where, number).exists() for number in range(plan.pieces)):
        return plan.root, "broken"
    try:
        now = image_folder.scan(Path(plan.root)).state
    except (InputError, OSError):
        return plan.root, "outdated"
    return plan.root, "current" if now == plan.state else "outdated"


def decode(path: Path, size: int) -> np.ndarray:
    """The middle square of an image, its shorter side brought to `size`, upright, in three colours."""
    from PIL import Image, ImageOps

    with Image.open(path) as opened:
        # A large JPEG is decoded at a half, a quarter or an eighth where that is still large enough.
        opened.draft("RGB", (size, size))
        # A camera's note on how it was held is heeded.
        image = ImageOps.exif_transpose(opened)
        if image.mode.startswith("I"):
            # Sixteen bits of grey: Pillow would cut off what is above 255 and give white.
            image = Image.fromarray((np.asarray(image).clip(0, 0xFFFF) >> 8).astype(np.uint8))
        image = image.convert("RGB")  # grey, palette and CMYK images become three colours
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        box = (left, top, left + side, top + side)
        if side == size:
            return np.asarray(image.crop(box))
        return np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box=box))


def do_piece(folder: Path, plan: Plan, number: int) -> None:
    rows = plan.rows(number)
    pixels = mapped(folder, plan, rows, mode="r+")
    skipped: dict[str, str] = {}
    for k, row in enumerate(rows):
        try:
            pixels[k] = decode(Path(plan.root, plan.files[row]), plan.size)
        except pictures.raised() as error:
            pixels[k] = 0
            skipped[plan.files[row]] = f"{type(error).__name__}: {error}"
    sum_ = zlib.crc32(pixels.data)
    # The pixels are in the file before the mark that vouches for them.
    pixels.flush()  # type: ignore[attr-defined]
    _put(mark(folder, number), {"crc32": sum_, "skipped": skipped})


def _put(path: Path, content: dict[str, Any]) -> None:
    """A file that appears whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(content), encoding="utf-8")
    beside.replace(path)


def main(folder: Path, *, turn: int, of: int) -> None:
    plan = read_plan(folder)
    for number in range(turn, plan.pieces, of):
        if not mark(folder, number).exists():
            do_piece(folder, plan, number)
            sys.stdout.write(f"{len(plan.rows(number))}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), turn=int(sys.argv[2]), of=int(sys.argv[3]))
