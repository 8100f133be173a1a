# SPDX-License-Identifier: Apache-2.0
"""The split is by picture, the same every time, and leaves something on both sides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from joulelab.data.labelled_pictures import Picture, split


def some(count: int, **more: str) -> tuple[Picture, ...]:
    boxes = np.zeros((0, 5), np.float32)
    return tuple(Picture(path=Path(f"{k}.tif"), width=1, height=1, boxes=boxes, **more) for k in range(count))


def test_a_tenth_is_validated_on() -> None:
    parts = [picture.part for picture in split(some(846))]
    assert parts == [picture.part for picture in split(some(846))]
    assert parts.count("train") + parts.count("val") == 846
    assert 50 < parts.count("val") < 120


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
def test_both_sides_have_something(count: int) -> None:
    assert {picture.part for picture in split(some(count))} == {"train", "val"}


def test_what_the_files_say_stays() -> None:
    told = tuple(replace(picture, part="val") for picture in some(20))
    assert split(told) == told
