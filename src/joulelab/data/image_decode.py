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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PLAN, PIXELS = "plan.json", "images.u8"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Where the images come from and in which pieces they are decoded."""

    root: Path
    size: int
    files: tuple[str, ...]
    piece: int  # images in one

    @property
    def pieces(self) -> int:
        return -(-len(self.files) // self.piece)

    def rows(self, number: int) -> range:
        return range(number * self.piece, min((number + 1) * self.piece, len(self.files)))


def read_plan(folder: Path) -> Plan:
    content = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    return Plan(
        root=Path(content["root"]),
        size=content["size"],
        files=tuple(content["files"]),
        piece=content["piece"],
    )


def mark(folder: Path, number: int) -> Path:
    return folder / f"{number:06}.json"


def mapped(folder: Path, plan: Plan, rows: range, *, mode: Any) -> np.ndarray:
    """These rows of the pixels."""
    shape = (len(rows), plan.size, plan.size, 3)
    return np.memmap(folder / PIXELS, np.uint8, mode, rows.start * plan.size * plan.size * 3, shape)


def decode(path: Path, size: int) -> np.ndarray:
    """The middle square of an image, its shorter side brought to `size`, upright, in three colours."""
    from PIL import Image, ImageOps

    with Image.open(path) as opened:
        # A large JPEG is decoded at a half, a quarter or an eighth where that is still large enough.
        opened.draft("RGB", (size, size))
        # Grey, palette and CMYK images become three colours; a camera's note on how it was held is heeded.
        image = ImageOps.exif_transpose(opened).convert("RGB")
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        box = (left, top, left + side, top + side)
        if side == size:
            return np.asarray(image.crop(box))
        return np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box=box))


def do_piece(folder: Path, plan: Plan, number: int) -> None:
    from PIL import Image

    rows = plan.rows(number)
    pixels = mapped(folder, plan, rows, mode="r+")
    skipped: dict[str, str] = {}
    for k, row in enumerate(rows):
        try:
            pixels[k] = decode(plan.root / plan.files[row], plan.size)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            pixels[k] = 0
            skipped[plan.files[row]] = f"{type(error).__name__}: {error}"
    beside = folder / f".{number:06}.{os.getpid()}"
    beside.write_text(json.dumps({"crc32": zlib.crc32(pixels.data), "skipped": skipped}), encoding="utf-8")
    # The pixels are in the file before the mark that vouches for them.
    pixels.flush()  # type: ignore[attr-defined]
    beside.replace(mark(folder, number))


def main(folder: Path, *, turn: int, of: int) -> None:
    plan = read_plan(folder)
    for number in range(turn, plan.pieces, of):
        if not mark(folder, number).exists():
            do_piece(folder, plan, number)
            sys.stdout.write(f"{len(plan.rows(number))}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), turn=int(sys.argv[2]), of=int(sys.argv[3]))
