# SPDX-License-Identifier: Apache-2.0
"""Labels of xView: what is no label is left out and counted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from joulelab.data import xview
from joulelab.errors import InputError
from tests.data import detection_parts

if TYPE_CHECKING:
    from pathlib import Path

IMAGES = {"5.tif": (300, 200), "104.tif": (250, 250)}


def read(folder: Path, *features: detection_parts.Feature, **more: Any) -> Any:
    return xview.read(detection_parts.xview(folder, features, images=IMAGES), **more)


def test_boxes_by_image(weird_tmp_path: Path) -> None:
    found = read(
        weird_tmp_path,
        ("10,20,40,60", 11, "5.tif"),
        ("100,100,130,140", 94, "104.tif"),
        ("0,0,300,200", 73, "5.tif"),
    )
    by_name = {picture.path.name: picture for picture in found.pictures}
    assert by_name["5.tif"].boxes.tolist() == [[0, 10, 20, 40, 60], [48, 0, 0, 300, 200]]
    assert by_name["104.tif"].boxes.tolist() == [[59, 100, 100, 130, 140]]
    assert (by_name["5.tif"].width, by_name["5.tif"].height) == (300, 200)
    assert len(found.classes) == 60
    assert found.classes[48] == "Building"
    assert found.dropped == found.broken == {}


def test_what_is_no_label_is_counted(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        ("10,20,40,60", 73, "5.tif"),
        ("10,20,40,60", 75, "5.tif"),
        ("10,20,40,60", 82, "5.tif"),
        ("10,20,40,60", 82, "104.tif"),
        ("10,20,40,60", None, "5.tif"),
        ("10,20,40,60", [73], "5.tif"),
        ([], 73, "5.tif"),
        ("", 73, "5.tif"),
        ("1,2,3", 73, "5.tif"),
        ("1,2,3,nan", 73, "5.tif"),
        ("a,b,c,d", 73, "5.tif"),
        ("10,20,40,60", 73, "1395.tif"),
    )
    assert [len(picture.boxes) for picture in found.pictures] == [0, 1]
    assert found.dropped == {
        "type_id 75 is no kind": 1,
        "type_id 82 is no kind": 2,
        "type_id None is no kind": 1,
        "type_id [73] is no kind": 1,
        "bounds are empty or not four numbers": 5,
        "the image is not there": 1,
    }


def test_boxes_that_leave_the_image() -> None:
    dropped: Counter[str] = Counter()
    rows = np.array(
        [
            [0, -10, -10, 30, 30],  # nine sixteenths are left
            [1, 290, 10, 330, 50],  # a quarter is left
            [2, 280, 150, 320, 230],  # half by five eighths
            [3, 400, 10, 440, 50],
            [4, 10, 10, 10, 50],  # no width
            [5, 50, 10, 40, 50],
            [6, 10, 10, 14, 50],  # 4 px wide
            [7, 10, 10, 15, 14],
            [8, 10, 10, 85, 15],  # 15 times as long as wide
            [9, 10, 10, 84, 15],
        ],
        np.float32,
    )
    found = xview.clean(rows, width=300, height=200, dropped=dropped)
    assert found.tolist() == [[0, 0, 0, 30, 30], [2, 280, 150, 300, 200], [9, 10, 10, 84, 15]]
    assert dict(dropped) == {
        "a side is 0 or less": 2,
        "outside the image, or three quarters of it": 2,
        "4 px or less wide or high, or less than 20 px in all": 2,
        "15 times as long as wide": 1,
    }
    assert rows[0, 1] == -10, "what was given stays as it was"


def test_hidden_files_are_no_images(tmp_path: Path) -> None:
    detection_parts.xview(tmp_path, [("10,20,40,60", 73, "5.tif")], images=IMAGES)
    (tmp_path / "train_images" / "._5.tif").write_bytes(b"\x00\x05\x16\x07")
    assert [path.name for path in xview.sources(tmp_path)] == ["xView_train.geojson", "104.tif", "5.tif"]
    assert xview.read(tmp_path).broken == {}


def test_an_image_that_cannot_be_read(tmp_path: Path) -> None:
    detection_parts.xview(tmp_path, [("10,20,40,60", 73, "5.tif")] * 2, images=IMAGES)
    (tmp_path / "train_images" / "5.tif").write_bytes(b"II*\x00 no tiff")
    found = xview.read(tmp_path)
    assert [picture.path.name for picture in found.pictures] == ["104.tif"]
    assert list(found.broken) == ["5.tif"]
    assert found.dropped == {"the image cannot be read": 2}


def test_fewer_kinds(tmp_path: Path) -> None:
    features = [("10,20,40,60", number, "5.tif") for number in (11, 18, 73)]
    found = read(tmp_path, *features, classes=2)
    assert found.classes == ("Small Car", "Building")
    assert [picture.boxes[:, 0].tolist() for picture in found.pictures] == [[], [0, 1]]
    assert found.dropped == {"of a kind that was not asked for": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be read"),
        ("[1, 2]", "no FeatureCollection"),
        ('{"type": "FeatureCollection"}', "no FeatureCollection"),
    ],
)
def test_labels_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    detection_parts.xview(tmp_path, [], images=IMAGES)
    (tmp_path / "xView_train.geojson").write_text(text)
    with pytest.raises(InputError, match=f"(?s)xView_train.*{said}.*FeatureCollection"):
        xview.read(tmp_path)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no xView_train\.geojson(.|\n)*TIFF"):
        xview.read(tmp_path)
    (tmp_path / "xView_train.geojson").write_text("{}")
    with pytest.raises(InputError, match="no train_images/"):
        xview.read(tmp_path)
    (tmp_path / "train_images").mkdir()
    with pytest.raises(InputError, match="no image in train_images/"):
        xview.read(tmp_path)
