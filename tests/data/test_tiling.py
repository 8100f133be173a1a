# SPDX-License-Identifier: Apache-2.0
"""Squares cover a picture, and boxes come along where enough of them does."""

from __future__ import annotations

import numpy as np
import pytest

from joulelab.data.tiling import Cut, Square

TILES = Cut(side=100, tiled=True)
WHOLE = Cut(side=100, tiled=False)


@pytest.mark.parametrize(
    ("length", "overlap", "starts"),
    [
        (100, 0.0, [0]),
        (60, 0.0, [0]),
        (101, 0.0, [0, 1]),
        (250, 0.0, [0, 100, 150]),
        (300, 0.0, [0, 100, 200]),
        (300, 0.2, [0, 80, 160, 200]),
        (100, 0.2, [0]),
    ],
)
def test_where_tiles_begin(length: int, overlap: float, starts: list[int]) -> None:
    cut = Cut(side=100, tiled=True, overlap=overlap)
    assert [square.x for square in cut.squares(length, 50)] == starts
    assert [square.y for square in cut.squares(50, length)] == starts


def test_tiles_cover_every_pixel() -> None:
    seen = np.zeros((237, 371), int)
    for square in Cut(side=64, tiled=True, overlap=0.1).squares(371, 237):
        seen[square.y : square.y + square.height, square.x : square.x + square.width] += 1
        assert (square.width, square.height, square.zoom) == (64, 64, 1.0)
    assert seen.min() == 1


@pytest.mark.parametrize(
    ("width", "height", "want"),
    [
        (400, 200, {"zoom": 0.25, "left": 0, "top": 25}),
        (50, 25, {"zoom": 2.0, "left": 0, "top": 25}),
        (100, 300, {"zoom": 1 / 3, "left": 33, "top": 0}),
    ],
)
def test_a_whole_picture_stands_in_the_middle(width: int, height: int, want: dict[str, float]) -> None:
    (square,) = WHOLE.squares(width, height)
    assert square == Square(x=0, y=0, width=width, height=height, **want)  # type: ignore[arg-type]


def test_boxes_of_a_whole_picture_are_moved_and_zoomed() -> None:
    (square,) = WHOLE.squares(400, 200)
    found = WHOLE.boxes(square, np.array([[3, 0, 0, 400, 200], [1, 40, 20, 48, 24]], np.float32))
    assert found.tolist() == [[3, 0, 25, 100, 75], [1, 10, 30, 12, 31]], "the small one too"


def test_boxes_of_a_tile() -> None:
    square = Square(x=100, y=100, width=100, height=100)
    boxes = np.array(
        [
            [0, 110, 120, 130, 150],  # inside
            [1, 90, 110, 120, 130],  # two thirds of it
            [2, 80, 110, 105, 130],  # a fifth of it
            [3, 190, 110, 230, 130],  # exactly a quarter is not more than a quarter
            [4, 50, 50, 250, 250],  # spans the tile: a quarter of it
            [5, 60, 60, 210, 210],  # spans it, and it is 0.44 of it
            [6, 96, 110, 103, 130],  # 3 px wide in here
            [7, 0, 0, 50, 50],
        ],
        np.float32,
    )
    assert TILES.boxes(square, boxes).tolist() == [
        [0, 10, 20, 30, 50],
        [1, 0, 10, 20, 30],
        [5, 0, 0, 100, 100],
    ]
    assert TILES.boxes(square, np.zeros((0, 5), np.float32)).shape == (0, 5)
