# SPDX-License-Identifier: Apache-2.0
"""The layout of xView: one GeoJSON of all labels, and a folder of TIFF images.

The labels hold what nobody can train on: kinds that are none, boxes without bounds or off the image, names
of images that are not there. Each is left out and counted.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.data import pictures, xview_kinds
from joulelab.data.labelled_pictures import Annotations, Picture, folder_error
from joulelab.data.tiling import LEAST_SHARE, LEAST_SIDE_PX, Floats
from joulelab.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

LABELS = "xView_train.geojson"
IMAGES = "train_images"
LEAST_AREA_PX, LARGEST_ASPECT = 20.0, 15.0
_WHAT = (
    f"{LABELS} (a FeatureCollection; each feature has bounds_imcoords, type_id and image_id) and {IMAGES}/ "
    "(the TIFF images)"
)


def sources(folder: Path) -> list[Path]:
    """The files that a reading depends on; an InputError says what is missing."""
    labels, images = folder / LABELS, folder / IMAGES
    if not labels.is_file() or not images.is_dir():
        missing = LABELS if not labels.is_file() else f"{IMAGES}/"
        raise folder_error(folder, missing, what=_WHAT)
    # macOS leaves ._NAME beside NAME when it copies; it is no image.
    found = sorted(path for path in images.glob("*.tif") if not path.name.startswith("."))
    if not found:
        raise folder_error(folder, f"image in {IMAGES}/", what=_WHAT)
    return [labels, *found]


def read(folder: Path, *, classes: int = 0) -> Annotations:
    """All images with their boxes; of the kinds the `classes` most frequent, or all 60 for 0."""
    labels, *images = sources(folder)
    kinds = xview_kinds.chosen(classes)
    index = {kind.number: k for k, kind in enumerate(kinds)}
    known = {kind.number for kind in xview_kinds.KINDS}
    dropped: Counter[str] = Counter()
    by_image: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    there = {path.name for path in images}
    for bounds, number, image in _features(labels):
        box = _numbers(bounds)
        if not isinstance(number, int) or number not in known:
            dropped[f"type_id {number} is no kind"] += 1
        elif number not in index:
            dropped["of a kind that was not asked for"] += 1
        elif box is None:
            dropped["bounds are empty or not four numbers"] += 1
        elif image not in there:
            dropped["the image is not there"] += 1
        else:
            by_image[image].append((index[number], *box))
    found, broken = [], {}
    for path in images:
        try:
            width, height = pictures.size(path)
        except pictures.BrokenPictureError as error:
            broken[path.name] = str(error)
            dropped["the image cannot be read"] += len(by_image[path.name])
            continue
        rows = np.array(by_image[path.name], np.float32).reshape(-1, 5)
        boxes = clean(rows, width=width, height=height, dropped=dropped)
        found.append(Picture(path=path, width=width, height=height, boxes=boxes))
    return Annotations(
        pictures=tuple(found),
        classes=tuple(kind.name for kind in kinds),
        dropped=dict(dropped),
        broken=broken,
    )


def clean(rows: Floats, *, width: int, height: int, dropped: Counter[str]) -> Floats:
    """`rows` of class, x1, y1, x2, y2 clipped to the image; what is then no object any more is counted."""
    clipped = rows.copy()
    clipped[:, 1::2] = rows[:, 1::2].clip(0, width)
    clipped[:, 2::2] = rows[:, 2::2].clip(0, height)
    before, after = rows[:, 3:] - rows[:, 1:3], clipped[:, 3:] - clipped[:, 1:3]
    area = after.prod(1)
    wrong_way = (before <= 0).any(1)
    outside = ~wrong_way & (area <= LEAST_SHARE * before.prod(1))
    left = ~(wrong_way | outside)
    short, long = after.min(1, initial=np.inf), after.max(1, initial=0.0)
    small = left & ((short <= LEAST_SIDE_PX) | (area < LEAST_AREA_PX))
    thin = left & ~small & (long >= LARGEST_ASPECT * short)
    for what, which in {
        "a side is 0 or less": wrong_way,
        "outside the image, or three quarters of it": outside,
        "4 px or less wide or high, or less than 20 px in all": small,
        "15 times as long as wide": thin,
    }.items():
        if which.any():
            dropped[what] += int(which.sum())
    kept: Floats = clipped[left & ~small & ~thin]
    return kept


def _features(path: Path) -> list[tuple[Any, Any, Any]]:
    """(bounds, kind, image) of each feature. The outlines, most of the file, are let go as they are read."""

    def shrink(given: dict[str, Any]) -> Any:
        if "coordinates" in given:
            return None
        if "bounds_imcoords" in given or "type_id" in given:
            return given.get("bounds_imcoords"), given.get("type_id"), given.get("image_id")
        return given

    try:
        with path.open(encoding="utf-8") as file:
            whole = json.load(file, object_hook=shrink)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}", cure=f"give the whole file: {_WHAT}") from error
    features = whole.get("features") if isinstance(whole, dict) else None
    if not isinstance(features, list):
        raise InputError(f"{path}: it is no FeatureCollection", cure=f"wanted: {_WHAT}")
    found = [feature.get("properties") for feature in features if isinstance(feature, dict)]
    return [one for one in found if isinstance(one, tuple)]


def _numbers(bounds: Any) -> tuple[float, ...] | None:
    """The four numbers of "xmin,ymin,xmax,ymax"."""
    if not isinstance(bounds, str):
        return None
    try:
        numbers = tuple(float(part) for part in bounds.split(","))
    except ValueError:
        return None
    return numbers if len(numbers) == 4 and all(map(math.isfinite, numbers)) else None
