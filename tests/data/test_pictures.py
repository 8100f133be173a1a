# SPDX-License-Identifier: Apache-2.0
"""Pictures of every kind become bytes of red, green and blue; broken ones are told apart."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from joulelab.data import pictures
from joulelab.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "CMYK", "P", "LA"])
def test_every_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "one.tif"
    Image.new("RGB", (7, 5), (204, 204, 204)).convert(mode).save(path)
    assert pictures.size(path) == (7, 5)
    found = pictures.pixels(path, width=7, height=5)
    assert found.shape == (5, 7, 3)
    assert found.dtype == np.uint8
    assert abs(found.astype(int) - 204).max() <= 2


def test_a_picture_that_is_marked_as_turned(tmp_path: Path) -> None:
    path = tmp_path / "turned.jpg"
    picture = Image.new("RGB", (8, 4), (0, 0, 0))
    picture.paste((255, 255, 255), (0, 0, 4, 4))
    exif = picture.getexif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    picture.save(path, exif=exif, quality=95)
    as_stored = pictures.pixels(path, width=8, height=4)
    assert as_stored[:, :3].min() > 200, "labels in the stored sides: it stays as it is"
    turned = pictures.pixels(path, width=4, height=8)
    assert turned.shape == (8, 4, 3)
    assert turned[:3].min() > 200
    with pytest.raises(pictures.BrokenPictureError, match="not 9 x 4"):
        pictures.pixels(path, width=9, height=4)


@pytest.mark.parametrize("kept", [0, 4, 60, 300])
def test_a_broken_file(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "one.tif"
    noise = np.random.default_rng(0).integers(0, 255, (40, 40, 3), np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(pictures.BrokenPictureError, match=r"\w+: "):
        pictures.pixels(path, width=40, height=40)


def test_text_and_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.tif").write_text("no picture")
    for name in ("a.tif", "gone.tif"):
        with pytest.raises(pictures.BrokenPictureError):
            pictures.size(tmp_path / name)


def test_made_smaller_a_pixel_is_the_mean_of_what_it_covers() -> None:
    stripes = np.zeros((8, 8, 3), np.uint8)
    stripes[::2] = 200
    small = pictures.resized(stripes, width=2, height=2)
    assert abs(small.astype(int) - 100).max() <= 40


def test_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def without(name: str, *more: Any) -> Any:
        return None if name == "PIL" else real(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(InputError, match=r"Pillow(.|\n)*joulelab\[vision\]"):
        pictures.needed()
