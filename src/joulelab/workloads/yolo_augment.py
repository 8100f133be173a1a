# SPDX-License-Identifier: Apache-2.0
"""Four tiles to a picture, larger or smaller, moved, mirrored, in other colours: a batch at a time.

What is drawn, and what becomes of the boxes, is worked out on the CPU; the pixels are moved on the device, in
one sampling for all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

GREY = 114 / 255  # where there is no picture
SCALE, TRANSLATE = 0.5, 0.1
HUE, SATURATION, VALUE = 0.015, 0.7, 0.4
MIRRORED = 0.5
LEAST_SIDE_PX, LEAST_AREA, LARGEST_ASPECT = 2.0, 0.1, 100.0
CHUNK = 32  # pictures made at a time: four tiles of floats for each of them are there at once


@dataclass(frozen=True, kw_only=True)
class Draw:
    """The chances of a batch, a row for each picture. Lengths are shares of the side of a tile."""

    centre: torch.Tensor  # x, y where the four tiles meet, on a canvas of two by two
    zoom: torch.Tensor
    shift: torch.Tensor  # x, y to which the middle of the canvas goes
    mirror: torch.Tensor
    colour: torch.Tensor  # factors of hue, saturation, value

    def to(self, device: torch.device) -> Draw:
        return Draw(
            **{name: getattr(self, name).to(device, non_blocking=True) for name in self.__dataclass_fields__}
        )


def draw(count: int, generator: torch.Generator) -> Draw:
    def between(low: float, high: float, *shape: int) -> torch.Tensor:
        return low + (high - low) * torch.rand(count, *shape, generator=generator)

    gains = torch.tensor((HUE, SATURATION, VALUE))
    return Draw(
        centre=between(0.5, 1.5, 2),
        zoom=between(1 - SCALE, 1 + SCALE),
        shift=between(0.5 - TRANSLATE, 0.5 + TRANSLATE, 2),
        mirror=between(0.0, 1.0) < MIRRORED,
        colour=1 + gains * between(-1.0, 1.0, 3),
    )


def pixels(tiles: torch.Tensor, drawn: Draw, *, dtype: torch.dtype) -> torch.Tensor:
    """Pictures of one tile's size out of `tiles`: pictures x 4 x 3 x side x side, bytes."""
    parts = []
    for first in range(0, len(tiles), CHUNK):
        here = slice(first, first + CHUNK)
        of_chunk = Draw(**{name: getattr(drawn, name)[here] for name in Draw.__dataclass_fields__})
        parts.append(_recoloured(_moved(tiles[here], of_chunk), of_chunk.colour).to(dtype))
    return torch.cat(parts)


def _moved(tiles: torch.Tensor, drawn: Draw) -> torch.Tensor:
    count, _, channels, side, _ = tiles.shape
    # The four tiles stand close together wherever they meet on the canvas, so one picture of two by two
    # tiles has them all, and the canvas is a window on it.
    close = tiles.view(count, 2, 2, channels, side, side).permute(0, 3, 1, 4, 2, 5)
    close = close.reshape(count, channels, 2 * side, 2 * side).float().div_(255).sub_(GREY)
    sign = torch.where(drawn.mirror, -1.0, 1.0)
    # From a place in the result (-1 to 1) to one on the canvas (0 to 2), and from there to one in `close`.
    slope = torch.stack((sign / (2 * drawn.zoom), 1 / (2 * drawn.zoom)), 1)
    start = (0.5 - drawn.shift) / drawn.zoom[:, None] + 1
    at = (torch.arange(side, device=tiles.device) + 0.5) * (2 / side) - 1
    canvas = slope[:, :, None] * at + start[:, :, None]
    inside = ((canvas >= 0) & (canvas <= 2)).float()
    theta = torch.zeros(count, 2, 3, device=tiles.device)
    theta[:, 0, 0], theta[:, 1, 1] = slope[:, 0], slope[:, 1]
    theta[:, :, 2] = start - drawn.centre
    grid = functional.affine_grid(theta, [count, channels, side, side], align_corners=False)
    moved = functional.grid_sample(close, grid, padding_mode="zeros", align_corners=False)
    return moved.mul_(inside[:, 1, None, :, None]).mul_(inside[:, 0, None, None, :]).add_(GREY)


def boxes(objects: torch.Tensor, drawn: Draw, *, side: int) -> torch.Tensor:
    """What becomes of `objects`: rows of picture, class, x1, y1, x2, y2 in pixels of the two by two tiles.

    Rows of picture, class, x, y, w, h about the centre come out; what is left too small or too thin goes.
    """
    of = objects[:, 0].long()
    corner = objects[:, 2:].view(-1, 2, 2)  # (low, high) x (x, y)
    canvas = (corner + side * (drawn.centre[of] - 1)[:, None]).clamp(0, 2 * side)
    zoom, shift = drawn.zoom[of][:, None, None], drawn.shift[of][:, None]
    placed = ((canvas - side) * zoom + shift * side).clamp(0, side)
    before = (canvas[:, 1] - canvas[:, 0]) * zoom[:, 0]
    after = placed[:, 1] - placed[:, 0]
    aspect = torch.maximum(after[:, 0] / (after[:, 1] + 1e-9), after[:, 1] / (after[:, 0] + 1e-9))
    kept = (
        (after > LEAST_SIDE_PX).all(1)
        & (after.prod(1) > LEAST_AREA * before.prod(1))
        & (aspect < LARGEST_ASPECT)
    )
    centre = placed.mean(1)
    x = torch.where(drawn.mirror[of], side - centre[:, 0], centre[:, 0])
    found = torch.cat((objects[:, :2], x[:, None], centre[:, 1:], after), 1)
    return found[kept]


def _recoloured(pictures: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """Hue, saturation and value of each picture times its factors; channels are red, green, blue in 0..1."""
    hue_by, saturation_by, value_by = factors[:, :, None, None].unbind(1)
    red, green, blue = pictures.unbind(1)
    value, strongest = pictures.max(1)
    width = value - pictures.amin(1)
    divisor = width.clamp(min=1e-9)
    sixth = torch.where(
        strongest == 0,
        (green - blue) / divisor,
        torch.where(strongest == 1, (blue - red) / divisor + 2, (red - green) / divisor + 4),
    )
    hue = (sixth % 6) * hue_by
    saturation = (width / value.clamp(min=1e-9) * saturation_by).clamp(0, 1)
    value = (value * value_by).clamp(0, 1)
    channels = []
    for offset in (5.0, 3.0, 1.0):
        k = (hue + offset) % 6
        channels.append(value - value * saturation * torch.minimum(k, 4 - k).clamp(0, 1))
    return torch.stack(channels, 1)
