# SPDX-License-Identifier: Apache-2.0
"""Large pictures as squares of one size: cut into tiles, or made small as a whole."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float32]]

LEAST_SHARE = 0.25  # of a box that a tile must hold for the rest to count
LEAST_SIDE_PX = 4.0


@dataclass(frozen=True, kw_only=True)
class Square:
    """One square out of a picture: this part of it, times `zoom`, at `left` and `top` in the square."""

    x: int
    y: int
    width: int
    height: int
    zoom: float = 1.0
    left: int = 0
    top: int = 0


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How pictures become squares of `side` pixels: `tiled` at their own scale, or whole with grey edges."""

    side: int
    tiled: bool
    overlap: float = 0.0  # of two tiles beside each other, as a share of the side

    def squares(self, width: int, height: int) -> list[Square]:
        if self.tiled:
            across, down = self._starts(width), self._starts(height)
            return [
                Square(x=x, y=y, width=min(self.side, width), height=min(self.side, height))
                for y, x in itertools.product(down, across)
            ]
        zoom = self.side / max(width, height)
        left, top = ((self.side - max(1, round(zoom * length))) // 2 for length in (width, height))
        return [Square(x=0, y=0, width=width, height=height, zoom=zoom, left=left, top=top)]

    def _starts(self, length: int) -> list[int]:
        """The last tile ends where the picture does, and overlaps its neighbour by what is over."""
        last = max(0, length - self.side)
        step = max(1, round(self.side * (1 - self.overlap)))
        return [*range(0, last, step), last]

    def boxes(self, square: Square, boxes: Floats) -> Floats:
        """Of `boxes`, rows of class, x1, y1, x2, y2 in the picture, those in the square, in its pixels."""
        low = np.array([square.x, square.y, square.x, square.y], np.float32)
        end = np.array([square.width, square.height, square.width, square.height], np.float32)
        clipped = np.clip(boxes[:, 1:] - low, 0, end)
        sides = clipped[:, 2:] - clipped[:, :2]
        whole = (boxes[:, 3:] - boxes[:, 1:3]).prod(1)
        least = LEAST_SIDE_PX if self.tiled else 0.0
        kept = (sides > least).all(1) & (sides.prod(1) > LEAST_SHARE * whole)
        shift = np.array([square.left, square.top, square.left, square.top], np.float32)
        placed = clipped[kept] * np.float32(square.zoom) + shift
        return np.concatenate((boxes[kept, :1], placed), 1, dtype=np.float32)
