# SPDX-License-Identifier: Apache-2.0
"""Image files through Pillow: their size without decoding, and their pixels as bytes of red, green, blue."""

from __future__ import annotations

import importlib.util
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class BrokenPictureError(ValueError):
    """A file that is no picture, or not a whole one. Whoever reads many goes on with the others."""


def needed() -> None:
    """An InputError where Pillow is not installed."""
    if importlib.util.find_spec("PIL") is None:
        raise InputError(
            "image files are read by Pillow, which is not installed", cure="pip install 'joulelab[vision]'"
        )


def size(path: Path) -> tuple[int, int]:
    """Width and height, by the head of the file."""
    from PIL import Image

    try:
        with Image.open(path) as picture:
            return picture.size
    except raised() as error:
        raise BrokenPictureError(_words(error)) from error


def pixels(path: Path, *, width: int, height: int) -> Bytes:
    """Rows x columns x 3 bytes. A picture that the camera's mark turns is turned if `width` and `height`,
    which the labels are in, are those of the turned one."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as picture:
            picture.load()
            seen: Image.Image = picture
            if seen.size != (width, height):
                seen = ImageOps.exif_transpose(seen)
            if seen.size != (width, height):
                raise BrokenPictureError(f"is {seen.size[0]} x {seen.size[1]}, not {width} x {height}")
            return np.asarray(seen.convert("RGB"))
    except raised() as error:
        raise BrokenPictureError(_words(error)) from error


def resized(picture: Bytes, *, width: int, height: int) -> Bytes:
    """Each pixel the mean of what it covers, or drawn between its neighbours."""
    from PIL import Image

    small = Image.fromarray(picture).resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(small)


def raised() -> tuple[type[BaseException], ...]:
    """What Pillow raises on broken files; warnings too, where somebody makes errors of them."""
    from PIL import Image

    of_python = (OSError, SyntaxError, ValueError, EOFError, struct.error, IndexError, KeyError, TypeError)
    return (*of_python, MemoryError, Image.DecompressionBombError, Warning)


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, BrokenPictureError) else f"{type(error).__name__}: {error}"
