# SPDX-License-Identifier: Apache-2.0
"""From a folder to squares: every fault of the labels at once, and what is kept between readings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from joulelab.data import cache_folder, detection, generate_xview
from joulelab.data.tiling import Cut
from joulelab.errors import InputError
from tests.data import detection_parts

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.data.detection_cache import Tiles

CUT = Cut(side=64, tiled=True)


def read(folder: Path, *, cut: Cut = CUT, layout: str = "xview", **more: Any) -> Tiles:
    return detection.read(folder, layout=layout, cut=cut, **more)


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("xview")
    generate_xview.generate(folder, scale=0.006, classes=3)
    return folder


def test_the_faults_of_the_stand_in_are_found(stand_in: Path) -> None:
    found = read(stand_in)
    for what in (
        "type_id 75 is no kind",
        "type_id 82 is no kind",
        "bounds are empty or not four numbers",
        "the image is not there",
        "outside the image, or three quarters of it",
    ):
        assert found.dropped[what] == 1, found.dropped
    assert found.broken == {}
    assert len(read(stand_in, classes=3).classes) == 3


def test_parts_have_no_picture_in_common(stand_in: Path) -> None:
    found = read(stand_in)
    assert not set(found.training) & set(found.validation)
    assert len(found.training) + len(found.validation) == len(found.pixels)
    assert len(found.validation) > 0


def test_tiles_are_cut_out_of_the_pictures(tmp_path: Path) -> None:
    images = {"5.tif": (100, 64), "7.tif": (64, 50)}
    features = [("70,10,90,30", 73, "5.tif"), ("10,10,30,30", 73, "7.tif")]
    detection_parts.xview(tmp_path, features, images=images)
    found = read(tmp_path)
    first = detection_parts.picture(tmp_path / "again.tif", width=100, height=64, seed=0)
    second = detection_parts.picture(tmp_path / "again.tif", width=64, height=50, seed=1)
    want = [first[:, :64], first[:, 36:], second]
    for row, picture in enumerate(want):
        np.testing.assert_array_equal(found.pixels[row][:, : len(picture)], picture.transpose(2, 0, 1))
    assert (found.pixels[2][:, 50:] == 114).all(), "grey below"
    assert found.boxes.tolist() == [[1, 48, 34, 10, 54, 30], [2, 48, 10, 10, 30, 30]]


def test_whole_pictures(tmp_path: Path) -> None:
    images = {f"{k}.tif": (128, 64) for k in range(4)}
    detection_parts.xview(tmp_path, [("0,0,64,64", 73, name) for name in images], images=images)
    found = read(tmp_path, cut=Cut(side=64, tiled=False))
    assert found.pixels.shape == (4, 3, 64, 64)
    assert (found.pixels[:, :, :16] == 114).all()
    assert (found.pixels[:, :, 48:] == 114).all()
    assert found.boxes[0].tolist() == [0, 48, 0, 16, 32, 48]


def test_coco_folders_keep_their_parts(tmp_path: Path) -> None:
    for name, sides in (("train", (64, 64)), ("val", (40, 64))):
        mark = {"image_id": 0, "category_id": 5, "bbox": [5, 5, 20, 20]}
        detection_parts.coco(tmp_path, name, images={f"{name}.png": sides}, marks=[mark])
    found = read(tmp_path, layout="coco")
    assert found.training.tolist() == [0]
    assert found.validation.tolist() == [1]
    assert found.classes == ("kind 1", "kind 5", "kind 9")


def test_the_second_reading_decodes_nothing(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = read(stand_in)
    monkeypatch.setattr("joulelab.data.pictures.pixels", None)
    monkeypatch.setattr("joulelab.data.xview.read", None)
    again = read(stand_in)
    np.testing.assert_array_equal(first.pixels, again.pixels)
    np.testing.assert_array_equal(first.boxes, again.boxes)
    with pytest.raises(TypeError):
        read(stand_in, cut=Cut(side=96, tiled=True))


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    images = {"5.tif": (64, 64), "7.tif": (64, 64)}
    features = [("10,10,30,30", 73, "5.tif"), ("10,10,30,30", 73, "7.tif")]
    detection_parts.xview(tmp_path, features, images=images)
    before = read(tmp_path)
    detection_parts.xview(tmp_path, [*features, ("40,40,60,60", 73, "5.tif")], images=images)
    assert len(read(tmp_path).boxes) == len(before.boxes) + 1


def test_a_broken_picture_is_named_and_left_out(tmp_path: Path) -> None:
    images = {f"{k}.tif": (64, 64) for k in range(8)}
    detection_parts.xview(tmp_path, [("10,10,30,30", 73, name) for name in images], images=images)
    victim = tmp_path / "train_images" / "2.tif"
    victim.write_bytes(victim.read_bytes()[:5000])  # its head is whole, its pixels are not
    found = read(tmp_path)
    assert list(found.broken) == ["2.tif"]
    assert sorted([*found.training, *found.validation]) == [0, 1, 3, 4, 5, 6, 7]
    for k in range(4):
        (tmp_path / "train_images" / f"{k}.tif").write_bytes(b"")
    with pytest.raises(InputError, match=r"(?s)4 of 8 images cannot be used.*0\.tif: .*copy the images anew"):
        read(tmp_path)


def test_nothing_to_validate_on_is_refused(tmp_path: Path) -> None:
    images = {"5.tif": (64, 64), "7.tif": (64, 64)}
    detection_parts.xview(tmp_path, [("10,10,30,30", 75, "5.tif")], images=images)
    with pytest.raises(InputError, match=r"(?s)no image with a box is left to train on.*type_id 75"):
        read(tmp_path)
    detection_parts.xview(tmp_path / "one", [("10,10,30,30", 73, "5.tif")], images={"5.tif": (64, 64)})
    with pytest.raises(InputError, match=r"left to (train|validate) on"):
        read(tmp_path / "one")


def test_where_nothing_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = {"5.tif": (64, 64), "7.tif": (64, 64)}
    detection_parts.xview(tmp_path, [("10,10,30,30", 73, name) for name in images], images=images)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache_folder.VARIABLE, str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"(?s)cannot be kept.*JOULELAB_CACHE"):
        read(tmp_path)


def test_a_misspelt_layout(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'xview'"):
        read(tmp_path, layout="xvew")
