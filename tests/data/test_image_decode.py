# SPDX-License-Identifier: Apache-2.0
"""Images of every kind become the square that a person sees; what cannot be decoded ends no process."""

from __future__ import annotations

import io
import json
import random
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from joulelab.data import image_decode, image_folder, pictures
from joulelab.data.image_decode import Plan, decode, do_piece, made_of, mapped, mark, read_plan, write_plan
from tests.data import image_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

RED, GREEN, BLUE, WHITE = (250, 10, 10), (10, 250, 10), (10, 10, 250), (250, 250, 250)


def quarters(side: int = 32) -> Image.Image:
    """Red and green above blue and white."""
    image = Image.new("RGB", (side, side))
    half = side // 2
    for colour, (left, top) in zip((RED, GREEN, BLUE, WHITE), ((0, 0), (1, 0), (0, 1), (1, 1)), strict=True):
        image.paste(colour, (left * half, top * half, (left + 1) * half, (top + 1) * half))
    return image


def corners(found: np.ndarray) -> list[tuple[int, ...]]:
    """The colours of the four quarters, as names would be given to them: dark or light a channel."""
    quarter = found.shape[0] // 4
    places = [(quarter, quarter), (quarter, -quarter), (-quarter, quarter), (-quarter, -quarter)]
    return [tuple(int(v > 127) for v in found[row, column]) for row, column in places]


UPRIGHT = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]


def test_a_square_of_the_asked_size_is_kept_to_the_bit(tmp_path: Path) -> None:
    seen = image_parts.noise(8, seed=1)
    Image.fromarray(seen).save(tmp_path / "a.png")
    assert np.array_equal(decode(tmp_path / "a.png", 8), seen)


@pytest.mark.parametrize(("width", "height"), [(24, 8), (8, 24), (9, 8)])
def test_of_a_longer_one_the_middle_is_taken(tmp_path: Path, width: int, height: int) -> None:
    whole = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(whole).save(tmp_path / "a.png")
    top, left = (height - 8) // 2, (width - 8) // 2
    assert np.array_equal(decode(tmp_path / "a.png", 8), whole[top : top + 8, left : left + 8])


def test_the_shorter_side_is_brought_to_size(tmp_path: Path) -> None:
    wide = Image.new("RGB", (96, 32), BLUE)
    wide.paste(quarters(), (32, 0))
    wide.save(tmp_path / "a.png")
    small = decode(tmp_path / "a.png", 16)
    assert small.shape == (16, 16, 3)
    assert corners(small) == UPRIGHT
    whole = np.asarray(wide.resize((48, 16), Image.Resampling.BILINEAR)).astype(int)
    assert abs(whole[:, 16:32] - small).max() <= 1, "as if all of it had been made smaller, and then cut"
    assert decode(tmp_path / "a.png", 100).shape == (100, 100, 3), "and enlarged where it is too small"


def test_a_large_jpeg_loses_nothing_by_being_decoded_small(tmp_path: Path) -> None:
    image = quarters(512).resize((512, 512))
    image.save(tmp_path / "a.jpg", quality=95)
    small = decode(tmp_path / "a.jpg", 64)
    wanted = np.asarray(image.resize((64, 64), Image.Resampling.BILINEAR))
    assert abs(small.astype(int) - wanted).mean() < 2


@pytest.mark.parametrize(
    ("mode", "suffix"),
    [("RGB", "jpg"), ("CMYK", "jpg"), ("P", "png"), ("RGBA", "png"), ("RGB", "webp"), ("CMYK", "tif")],
)
def test_colours_are_those_that_are_seen(tmp_path: Path, mode: str, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    image = quarters().quantize(8) if mode == "P" else quarters().convert(mode)
    image.save(path, quality=95)  # which those without a loss do not heed
    with Image.open(path) as stored:
        assert stored.mode == mode
    found = decode(path, 32)
    assert corners(found) == UPRIGHT
    assert abs(found.astype(int) - np.asarray(quarters())).mean() < 6


@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_grey_becomes_three_equal_channels(tmp_path: Path, suffix: str) -> None:
    grey = np.repeat(np.arange(0, 256, 8, dtype=np.uint8)[None], 32, 0)
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(grey).save(path)
    found = decode(path, 32)
    assert np.array_equal(found[..., 0], found[..., 1])
    assert np.array_equal(found[..., 0], found[..., 2])
    assert abs(found[..., 0].astype(int) - grey).max() <= 3


def test_sixteen_bits_of_grey_are_not_all_white(tmp_path: Path) -> None:
    grey = np.repeat(np.arange(0, 65536, 2048, dtype=np.uint16)[None], 32, 0)
    Image.fromarray(grey).save(tmp_path / "a.png")
    assert np.array_equal(decode(tmp_path / "a.png", 32)[0, :, 0], np.arange(0, 256, 8))


# What a camera notes, and what has to be done to the picture so that the note makes it upright again.
TURNED = {
    1: (),
    2: (Image.Transpose.FLIP_LEFT_RIGHT,),
    3: (Image.Transpose.ROTATE_180,),
    4: (Image.Transpose.FLIP_TOP_BOTTOM,),
    5: (Image.Transpose.TRANSPOSE,),
    6: (Image.Transpose.ROTATE_90,),
    7: (Image.Transpose.TRANSVERSE,),
    8: (Image.Transpose.ROTATE_270,),
}


@pytest.mark.parametrize("note", TURNED)
def test_a_camera_that_was_held_otherwise_is_heeded(tmp_path: Path, note: int) -> None:
    image = Image.new("RGB", (96, 32), BLUE)  # the middle of the long side is looked for after turning
    image.paste(quarters(), (32, 0))
    for way in TURNED[note]:
        image = image.transpose(way)
    exif = image.getexif()
    exif[0x0112] = note
    image.save(tmp_path / "a.jpg", exif=exif, quality=95)
    assert corners(decode(tmp_path / "a.jpg", 32)) == UPRIGHT


def damaged() -> Iterator[tuple[str, bytes]]:
    """Files of each kind with bytes changed, cut off, or of another kind than they say."""
    rng = random.Random(0)
    for suffix in ("jpg", "png", "webp", "tif", "bmp"):
        file = io.BytesIO()
        quarters().save(file, {"jpg": "JPEG", "tif": "TIFF"}.get(suffix, suffix.upper()))
        whole = file.getvalue()
        for _ in range(60):
            torn = bytearray(whole[: rng.randrange(len(whole))] if rng.random() < 0.3 else whole)
            for _ in range(rng.randrange(1, 20)):
                if torn:
                    torn[rng.randrange(min(len(torn), 400))] = rng.randrange(256)
            yield suffix, bytes(torn)


@pytest.mark.filterwarnings("ignore")  # what Pillow says of some of them
def test_whatever_is_in_a_file_only_that_file_is_skipped(tmp_path: Path) -> None:
    ended = []
    for k, (suffix, content) in enumerate(damaged()):
        path = tmp_path / f"{k}.{suffix}"
        path.write_bytes(content)
        try:
            assert decode(path, 16).shape == (16, 16, 3)
        except pictures.raised() as error:
            ended.append(error)
    assert len(ended) > 50


def plan_of(root: Path, *, piece: int = 2, size: int = 8) -> Plan:
    found = image_folder.scan(root)
    return Plan(root=str(root), size=size, files=found.files, piece=piece, state=found.state)


def laid_out(folder: Path, plan: Plan) -> Path:
    folder.mkdir()
    write_plan(folder, plan)
    with (folder / image_decode.PIXELS).open("wb") as file:
        file.truncate(plan.bytes)
    return folder


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    plan = plan_of(image_parts.folder(tmp_path / "images"), piece=4)
    assert read_plan(laid_out(tmp_path / "cache", plan)) == plan
    assert (plan.pieces, list(plan.rows(0)), list(plan.rows(1))) == (2, [0, 1, 2, 3], [4, 5])
    assert plan.bytes == 6 * 8 * 8 * 3


def test_a_piece_holds_its_images_and_its_sum(tmp_path: Path) -> None:
    root = image_parts.folder(tmp_path / "images")
    (root / "class 0" / "2.png").write_bytes(b"no image")
    plan = plan_of(root)
    folder = laid_out(tmp_path / "cache", plan)
    do_piece(folder, plan, 1)
    wanted = image_parts.pixels(6)
    assert not mapped(folder, plan, plan.rows(0), mode="r").any(), "the pieces of others are left alone"
    found = mapped(folder, plan, plan.rows(1), mode="r")
    assert not found[0].any()
    assert np.array_equal(found[1], wanted[3])
    content = json.loads(mark(folder, 1).read_text())
    assert list(content["skipped"]) == ["class 0/2.png"]
    assert "UnidentifiedImageError" in content["skipped"]["class 0/2.png"]
    assert content["crc32"] == zlib.crc32(found.tobytes())
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_processes_share_the_pieces_and_leave_out_what_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_of(image_parts.folder(tmp_path / "images", each=4), piece=3)
    folder = laid_out(tmp_path / "cache", plan)
    mark(folder, 0).write_text("done by another")
    image_decode.main(folder, turn=0, of=2)
    assert capsys.readouterr().out == "2\n"
    assert mark(folder, 0).read_text() == "done by another"
    assert not mark(folder, 1).exists()
    image_decode.main(folder, turn=1, of=2)
    assert capsys.readouterr().out == "3\n"
    found = mapped(folder, plan, range(3, 8), mode="r")
    assert np.array_equal(found, image_parts.pixels(8)[3:])


def test_what_a_folder_was_made_of(tmp_path: Path) -> None:
    root = image_parts.folder(tmp_path / "images")
    plan = plan_of(root, piece=6)
    folder = laid_out(tmp_path / "cache", plan)
    assert made_of(folder) == (str(root), "broken"), "not finished"
    image_decode.main(folder, turn=0, of=1)
    assert made_of(folder) == (str(root), "current")
    (root / "class 0" / "0.png").unlink()
    assert made_of(folder) == (str(root), "outdated")
    root.rename(tmp_path / "elsewhere")
    assert made_of(folder) == (str(root), "outdated")
    (folder / image_decode.PLAN).write_text('{"root": ')
    assert made_of(folder) == ("", "broken")
