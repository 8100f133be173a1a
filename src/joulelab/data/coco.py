# SPDX-License-Identifier: Apache-2.0
"""Folders in COCO's layout: annotations/instances_NAME.json, and the images of each in a folder NAME."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.data import pictures
from joulelab.data.labelled_pictures import TRAIN, VALIDATE, Annotations, Picture, folder_error
from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_WHAT = (
    "annotations/instances_NAME.json and the images in NAME/ or images/NAME/; a NAME that begins with val is "
    "validated on, and without one a tenth of the images is"
)


def sources(folder: Path) -> list[Path]:
    """The files that a reading depends on: label files first, then every image."""
    labels = _labels(folder)
    images: list[Path] = []
    for path in labels:
        images += sorted(one for one in _images(folder, path).iterdir() if not one.name.startswith("."))
    return [*labels, *images]


def read(folder: Path, *, classes: int = 0) -> Annotations:
    """All images with their boxes; of the kinds the `classes` most frequent in training, or all for 0."""
    labels = _labels(folder)
    wholes = {path: _load(path) for path in labels}
    several = any(_part(path) == VALIDATE for path in labels)
    names = {int(kind["id"]): str(kind["name"]) for whole in wholes.values() for kind in whole["categories"]}
    counted = Counter(
        int(mark["category_id"])
        for path, whole in wholes.items()
        if _part(path) == TRAIN
        for mark in whole["annotations"]
    )
    often = sorted(names, key=lambda number: (-counted[number], number))
    index = {number: k for k, number in enumerate(sorted(often[: classes or None]))}
    dropped: Counter[str] = Counter()
    broken: dict[str, str] = {}
    found: list[Picture] = []
    for path, whole in wholes.items():
        rows = _rows(whole["annotations"], index, known=set(names), dropped=dropped)
        where = _images(folder, path)
        for image in whole["images"]:
            file = where / str(image["file_name"])
            boxes = np.array(rows[image["id"]], np.float32).reshape(-1, 5)
            if not file.is_file():
                broken[file.name] = "is not there"
                dropped["the image is not there"] += len(boxes)
                continue
            try:
                pictures.size(file)
            except pictures.BrokenPictureError as error:
                broken[file.name] = str(error)
                dropped["the image cannot be read"] += len(boxes)
                continue
            width, height = int(image["width"]), int(image["height"])
            kept = _clean(boxes, width=width, height=height, dropped=dropped)
            part = _part(path) if several else ""
            found.append(Picture(path=file, width=width, height=height, boxes=kept, part=part))
    return Annotations(
        pictures=tuple(found),
        classes=tuple(names[number] for number in index),
        dropped=dict(dropped),
        broken=broken,
    )


def _rows(
    marks: Iterable[dict[str, Any]], index: dict[int, int], *, known: set[int], dropped: Counter[str]
) -> dict[Any, list[tuple[float, ...]]]:
    rows: dict[Any, list[tuple[float, ...]]] = defaultdict(list)
    for mark in marks:
        number, box = int(mark["category_id"]), mark.get("bbox")
        if number not in known:
            dropped[f"category_id {number} is no category"] += 1
        elif number not in index:
            dropped["of a kind that was not asked for"] += 1
        elif mark.get("iscrowd"):
            dropped["a crowd"] += 1
        elif not isinstance(box, list) or len(box) != 4:
            dropped["bounds are empty or not four numbers"] += 1
        else:
            x, y, width, height = (float(value) for value in box)
            rows[mark["image_id"]].append((index[number], x, y, x + width, y + height))
    return rows


def _clean(boxes: Any, *, width: int, height: int, dropped: Counter[str]) -> Any:
    boxes[:, 1::2] = boxes[:, 1::2].clip(0, width)
    boxes[:, 2::2] = boxes[:, 2::2].clip(0, height)
    kept = ((boxes[:, 3:] - boxes[:, 1:3]) > 0).all(1)
    if not kept.all():
        dropped["outside the image, or a side is 0"] += int((~kept).sum())
    return boxes[kept]


def _labels(folder: Path) -> list[Path]:
    found = sorted(folder.glob("annotations/instances_*.json"))
    if not any(_part(path) == TRAIN for path in found):
        raise folder_error(folder, "annotations/instances_train*.json", what=_WHAT)
    return found


def _name(labels: Path) -> str:
    return labels.stem.removeprefix("instances_")


def _part(labels: Path) -> str:
    return VALIDATE if _name(labels).startswith("val") else TRAIN


def _images(folder: Path, labels: Path) -> Path:
    for where in (folder / _name(labels), folder / "images" / _name(labels)):
        if where.is_dir():
            return where
    raise folder_error(folder, f"{_name(labels)}/ for {labels.name}", what=_WHAT)


def _load(path: Path) -> dict[str, Any]:
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}", cure=f"wanted: {_WHAT}") from error
    missing = [name for name in ("images", "annotations", "categories") if name not in whole]
    if missing:
        raise InputError(f"{path} has no list of {', no list of '.join(missing)}", cure=f"wanted: {_WHAT}")
    return dict(whole)
