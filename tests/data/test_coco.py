# SPDX-License-Identifier: Apache-2.0
"""Folders in COCO's layout."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from joulelab.data import coco
from joulelab.errors import InputError
from tests.data import detection_parts

if TYPE_CHECKING:
    from pathlib import Path

IMAGES = {"a.jpg": (120, 80), "b.jpg": (60, 60)}


def mark(image: int, number: int, *box: float, **more: Any) -> dict[str, Any]:
    return {"image_id": image, "category_id": number, "bbox": list(box), **more}


def test_two_parts(weird_tmp_path: Path) -> None:
    detection_parts.coco(
        weird_tmp_path, "train2017", images=IMAGES, marks=[mark(0, 5, 10, 20, 30, 40), mark(1, 9, 1, 2, 3, 4)]
    )
    detection_parts.coco(
        weird_tmp_path, "val2017", images={"c.jpg": (50, 50)}, marks=[mark(0, 1, 0, 0, 9, 9)]
    )
    found = coco.read(weird_tmp_path)
    assert [(picture.path.name, picture.part) for picture in found.pictures] == [
        ("a.jpg", "train"),
        ("b.jpg", "train"),
        ("c.jpg", "val"),
    ]
    assert found.pictures[0].boxes.tolist() == [[1, 10, 20, 40, 60]]
    assert found.pictures[2].boxes.tolist() == [[0, 0, 0, 9, 9]]
    assert found.classes == ("kind 1", "kind 5", "kind 9")
    assert len(coco.sources(weird_tmp_path)) == 5


def test_one_part_is_split_later(tmp_path: Path) -> None:
    detection_parts.coco(tmp_path, "train", images=IMAGES, marks=[mark(0, 5, 10, 20, 30, 40)])
    assert {picture.part for picture in coco.read(tmp_path).pictures} == {""}


def test_what_is_no_label_is_counted(tmp_path: Path) -> None:
    detection_parts.coco(
        tmp_path,
        "train",
        images=IMAGES,
        marks=[
            mark(0, 5, 100, 60, 40, 40),
            mark(0, 2, 10, 20, 30, 40),
            mark(0, 5, 10, 20, 30, 40, iscrowd=1),
            mark(0, 5, 130, 20, 30, 40),
            mark(0, 5, 10, 20, 0, 40),
            mark(0, 5),
            mark(1, 5, 10, 20, 30, 30),
        ],
    )
    (tmp_path / "train" / "b.jpg").write_bytes(b"no picture")
    found = coco.read(tmp_path)
    assert [picture.boxes.tolist() for picture in found.pictures] == [[[1, 100, 60, 120, 80]]]
    assert found.dropped == {
        "category_id 2 is no category": 1,
        "a crowd": 1,
        "outside the image, or a side is 0": 2,
        "bounds are empty or not four numbers": 1,
        "the image cannot be read": 1,
    }
    assert list(found.broken) == ["b.jpg"]


def test_an_image_that_is_not_there(tmp_path: Path) -> None:
    detection_parts.coco(tmp_path, "train", images=IMAGES, marks=[mark(1, 5, 10, 20, 30, 30)])
    (tmp_path / "train" / "b.jpg").unlink()
    found = coco.read(tmp_path)
    assert found.broken == {"b.jpg": "is not there"}
    assert found.dropped == {"the image is not there": 1}


def test_the_most_frequent_kinds(tmp_path: Path) -> None:
    marks = [mark(0, number, 10, 20, 30, 40) for number in (9, 9, 1, 5, 9, 5)]
    detection_parts.coco(tmp_path, "train", images=IMAGES, marks=marks)
    found = coco.read(tmp_path, classes=2)
    assert found.classes == ("kind 5", "kind 9")
    assert found.pictures[0].boxes[:, 0].tolist() == [1, 1, 0, 1, 0]
    assert found.dropped == {"of a kind that was not asked for": 1}


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no annotations/instances_train\*\.json"):
        coco.read(tmp_path)
    detection_parts.coco(tmp_path, "train", images={}, marks=[])
    with pytest.raises(InputError, match=r"no train/ for instances_train\.json"):
        coco.read(tmp_path)
    (tmp_path / "images" / "train").mkdir(parents=True)
    assert coco.read(tmp_path).pictures == ()
    (tmp_path / "annotations" / "instances_train.json").write_text(json.dumps({"images": []}))
    with pytest.raises(InputError, match="no list of annotations, no list of categories"):
        coco.read(tmp_path)
