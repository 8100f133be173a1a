# SPDX-License-Identifier: Apache-2.0
"""Pictures and the boxes in them, before any pixel is read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from joulelab.data.tiling import Floats

TRAIN, VALIDATE = "train", "val"
_SHARE_VALIDATED = 0.1


@dataclass(frozen=True, kw_only=True)
class Picture:
    path: Path
    width: int
    height: int
    boxes: Floats  # rows of class, x1, y1, x2, y2 in pixels
    part: str = ""  # train or val, where the files say so


@dataclass(frozen=True, kw_only=True)
class Annotations:
    pictures: tuple[Picture, ...]
    classes: tuple[str, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)  # the reason, in words, to how many boxes
    broken: Mapping[str, str] = field(default_factory=dict)  # the file to what is wrong with it


def split(pictures: tuple[Picture, ...]) -> tuple[Picture, ...]:
    """Of pictures that belong to no part, each to validation with a chance of a tenth, the same every time.

    Whole pictures: tiles of one scene on both sides would let a network be tested on what it has seen.
    """
    chance = np.random.default_rng(0).random(len(pictures))
    parts = [VALIDATE if value < _SHARE_VALIDATED else TRAIN for value in chance]
    if len(parts) > 1 and len(set(parts)) == 1:
        parts[int(chance.argmin())], parts[int(chance.argmax())] = VALIDATE, TRAIN
    return tuple(
        picture if picture.part else replace(picture, part=part)
        for picture, part in zip(pictures, parts, strict=True)
    )


def folder_error(folder: Path, missing: str, *, what: str) -> InputError:
    return InputError(f"{folder}: no {missing}", cure=f"a folder is wanted with {what}")
