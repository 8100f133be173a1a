# SPDX-License-Identifier: Apache-2.0
"""A stand-in for xView: made-up pictures from above in its layout, with the faults of its labels.

Each kind of object has a colour, a shape and a usual size of its own, so a network can learn it. Objects are
as dense as in the original: 78 in a million pixels, mostly buildings and small cars, few in most pictures and
many in some. The same seed gives the same bytes with one release of Pillow.
"""

from __future__ import annotations

import colorsys
import json
import os
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.data import pictures, xview_kinds
from joulelab.data.stand_in import Progress, scaled
from joulelab.data.xview import IMAGES, LABELS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from joulelab.data.xview_kinds import Kind

VERSION = 1  # of the bytes; it names the folder
PICTURES = 846
SIDES_PX = (2600, 3400)
LEAST_SIDE_PX = 160
LEAST_OBJECTS = 3  # in small pictures, so that none is without
OBJECTS_A_PIXEL = 705 / 3000**2
NO_KINDS = (75, 82)
MISSING = "1395.tif"
_VEHICLES = range(17, 39)  # numbers of kinds that are cars, lorries and carriages
_PLACES = (77, 79, 83, 89, 74, 84)  # that cover ground

Array = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class _Object:
    kind: int
    box: tuple[int, int, int, int]


def generate(
    out: Path, *, scale: float, seed: int = 0, classes: int = 0, progress: Progress | None = None
) -> list[Path]:
    """Write images and labels into `out`; an image that is there already is kept. `scale` is the share of the
    images; their sides shrink with its square root. With `classes`, that many kinds, each as frequent.
    """
    pictures.needed()
    (out / IMAGES).mkdir(parents=True, exist_ok=True)
    kinds = xview_kinds.chosen(classes)
    count = max(4, scaled(PICTURES, scale))
    numbers = sorted(np.random.default_rng(0).choice(2614, count, replace=False).tolist())
    labels: list[dict[str, Any]] = []
    paths: list[Path] = []
    for done, number in enumerate(numbers, start=1):
        name = f"{number + 5}.tif"
        name = name if name != MISSING else "2620.tif"
        rng = np.random.default_rng([seed, 1, number])
        width, height = _sides(rng, scale)
        objects = _scatter(rng, kinds, width=width, height=height, alike=bool(classes))
        paths.append(out / IMAGES / name)
        if not paths[-1].exists():
            _save(paths[-1], draw(rng, objects, width=width, height=height))
        labels += [_feature(one.kind, one.box, name) for one in objects]
        if progress is not None:
            progress(done, count)
    labels += _faults(paths[0].name, width=_sides(np.random.default_rng([seed, 1, numbers[0]]), scale)[0])
    path = out / LABELS
    if not path.exists():
        text = json.dumps({"type": "FeatureCollection", "features": labels}, separators=(",", ":"))
        _publish(path, text.encode())
    return [path, *paths]


def _sides(rng: np.random.Generator, scale: float) -> tuple[int, int]:
    factor = min(1.0, scale**0.5)
    width, height = (max(LEAST_SIDE_PX, round(factor * side)) for side in rng.integers(*SIDES_PX, 2).tolist())
    return width, height


def _scatter(
    rng: np.random.Generator, kinds: Sequence[Kind], *, width: int, height: int, alike: bool
) -> list[_Object]:
    """Objects that stand apart from each other, in a random order of their size."""
    shares = np.array([1 if alike else kind.count for kind in kinds], float)
    # A heavy tail: the mean is 1, a tenth of the pictures have more than twice of it.
    crowd = rng.lognormal(-0.5, 1.0)
    count = max(LEAST_OBJECTS, rng.poisson(OBJECTS_A_PIXEL * width * height * crowd))
    chosen = rng.choice(len(kinds), count, p=shares / shares.sum())
    taken = np.zeros((height // 4 + 1, width // 4 + 1), bool)
    found = []
    for index in chosen.tolist():
        kind = kinds[index]
        w, h = _size(rng, kind.number)
        w, h = min(w, width // 2), min(h, height // 2)
        for _ in range(4):  # where it is crowded an object may find no place
            x, y = int(rng.integers(0, width - w)), int(rng.integers(0, height - h))
            here = taken[y // 4 : (y + h) // 4 + 1, x // 4 : (x + w) // 4 + 1]
            if not here.any():
                here[:] = True
                found.append(_Object(kind.number, (x, y, x + w, y + h)))
                break
    return found


def _size(rng: np.random.Generator, number: int) -> tuple[int, int]:
    middle, spread = (200.0, 0.4) if number in _PLACES else (40.0, 0.35)
    if number in _VEHICLES:
        middle, spread = (14.0, 0.2) if number <= 20 else (28.0, 0.25)
    w, h = (middle * np.exp(spread * rng.standard_normal(2))).round().astype(int).tolist()
    return max(6, w), max(6, h)


def draw(rng: np.random.Generator, objects: Sequence[_Object], *, width: int, height: int) -> Array:
    """Ground of soft patches and grain, and the objects on it."""
    patches = rng.integers(70, 150, (height // 64 + 2, width // 64 + 2, 3)).astype(np.uint8)
    ground = pictures.resized(patches, width=width, height=height).astype(np.int16)
    grain = rng.integers(-12, 13, (128, 128, 1), np.int16)
    ground += np.tile(grain, (height // 128 + 1, width // 128 + 1, 1))[:height, :width]
    for one in objects:
        x1, y1, x2, y2 = one.box
        shape = _shape(one.kind, x2 - x1, y2 - y1)
        colour = _colour(one.kind) + rng.integers(-15, 16)
        where = ground[y1:y2, x1:x2]
        where[shape] = (colour + grain[:1, :1, 0]).astype(np.int16)
    return ground.clip(0, 255).astype(np.uint8)


def _shape(number: int, width: int, height: int) -> Any:
    """Which pixels of its box an object of this kind covers; each side of the box is touched."""
    y, x = np.mgrid[:height, :width]
    u, v = (x + 0.5) / width * 2 - 1, (y + 0.5) / height * 2 - 1
    return (
        np.ones((height, width), bool),
        u**2 + v**2 <= 1.02,
        (abs(u) < 0.45) | (abs(v) < 0.45),
        abs(u) + abs(v) <= 1.05,
        (abs(u) > 0.5) | (abs(v) > 0.5),
    )[number % 5]


def _colour(number: int) -> Any:
    """Far from that of the next number, and lighter or darker than the ground."""
    light = (0.95, 0.35)[number % 2]
    return np.array(colorsys.hsv_to_rgb(number * 0.618 % 1, 0.85, light)) * 255


def _feature(kind: int, box: Sequence[int] | None, image: str) -> dict[str, Any]:
    bounds: Any = [] if box is None else ",".join(map(str, box))
    return {
        "type": "Feature",
        "properties": {"bounds_imcoords": bounds, "type_id": kind, "image_id": image},
        "geometry": None,
    }


def _faults(image: str, *, width: int) -> list[dict[str, Any]]:
    """What the original's labels hold beside labels."""
    beyond = (width + 20, 10, width + 60, 50)
    return [
        *(_feature(number, (10, 10, 40, 40), image) for number in NO_KINDS),
        _feature(73, None, image),
        _feature(73, beyond, image),
        _feature(18, (10, 10, 40, 40), MISSING),
    ]


def _save(path: Path, picture: Array) -> None:
    from PIL import Image

    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        Image.fromarray(picture).save(part, format="TIFF")
        os.replace(part, path)  # noqa: PTH105  the name says that it is atomic
    finally:
        part.unlink(missing_ok=True)


def _publish(path: Path, text: bytes) -> None:
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        part.write_bytes(text)
        os.replace(part, path)  # noqa: PTH105  the name says that it is atomic
    finally:
        part.unlink(missing_ok=True)
