# SPDX-License-Identifier: Apache-2.0
"""What the tests of detection data share: small folders in the layouts of xView and COCO."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Feature = tuple[Any, Any, Any]  # bounds, type_id, image_id


def picture(path: Path, *, width: int, height: int, seed: int = 0) -> Any:
    """A file of noise, and the noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(noise).save(path)
    return noise


def xview(folder: Path, features: Sequence[Feature], *, images: Mapping[str, tuple[int, int]]) -> Path:
    for seed, (name, (width, height)) in enumerate(images.items()):
        picture(folder / "train_images" / name, width=width, height=height, seed=seed)
    marks = [
        {
            "type": "Feature",
            "geometry": {"type": "Polygon", "coordinates": [[[1.0, 2.0], [3.0, 4.0]]]},
            "properties": {"bounds_imcoords": bounds, "type_id": number, "image_id": image, "cat_id": "x"},
        }
        for bounds, number, image in features
    ]
    (folder / "xView_train.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": marks}))
    return folder


def coco(
    folder: Path, name: str, *, images: Mapping[str, tuple[int, int]], marks: Sequence[dict[str, Any]]
) -> Path:
    """`marks` name their image by its place among `images`, from 0."""
    for seed, (file, (width, height)) in enumerate(images.items()):
        picture(folder / name / file, width=width, height=height, seed=seed)
    whole = {
        "images": [
            {"id": 100 + k, "file_name": file, "width": width, "height": height}
            for k, (file, (width, height)) in enumerate(images.items())
        ],
        "annotations": [
            {"id": k, **mark, "image_id": 100 + mark["image_id"]} for k, mark in enumerate(marks)
        ],
        "categories": [{"id": number, "name": f"kind {number}"} for number in (1, 5, 9)],
    }
    (folder / "annotations").mkdir(exist_ok=True)
    (folder / "annotations" / f"instances_{name}.json").write_text(json.dumps(whole))
    return folder
