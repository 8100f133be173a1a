# SPDX-License-Identifier: Apache-2.0
"""Pictures as the network sees them: cut, mirrored, scaled and normalised on the device, a batch at a time.

What is random about an epoch is drawn at its start, for all its pictures at once: a batch then costs a few
kernels, and the draws depend on the seed alone.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, in shares of 255
SMALL = 64  # pixels: below, pictures are shifted; above, a random part is cut out of them


class Normal:
    """Bytes of (batch, height, width, 3) to numbers of (batch, 3, height, width) around nought."""

    def __init__(self, *, device: torch.device, dtype: torch.dtype, channels_last: bool) -> None:
        put: dict[str, Any] = {"device": device, "dtype": dtype}
        std = 255.0 * torch.tensor(STD, **put)
        self._scale = (1.0 / std)[:, None, None]
        self._shift = (-255.0 * torch.tensor(MEAN, **put) / std)[:, None, None]
        self._order = torch.channels_last if channels_last else torch.contiguous_format

    def __call__(self, pictures: torch.Tensor) -> torch.Tensor:
        wide = pictures.permute(0, 3, 1, 2).to(self._scale.dtype)
        return torch.addcmul(self._shift, wide, self._scale).contiguous(memory_format=self._order)


class Shifted:
    """Shifted by up to `reach` pixels with the border reflected, mirrored, and with a hole of grey."""

    def __init__(
        self,
        count: int,
        *,
        size: int,
        hole: int,
        generator: torch.Generator,
        mirrored: torch.Tensor | None = None,
    ) -> None:
        """`mirrored` says of each picture whether it is, where that is not to be drawn."""
        put: dict[str, Any] = {"device": generator.device, "generator": generator}
        reach = max(1, size // 8)
        pixel = torch.arange(size, device=generator.device)
        by = torch.randint(-reach, reach + 1, (2, count, 1), **put)
        if mirrored is None:
            mirrored = torch.rand(count, **put) < 0.5
        # Counting from the border inwards again where a shift leads beyond it.
        at = (size - 1 - (size - 1 - (pixel + by).abs()).abs()).expand(2, count, size)
        self._y = at[0]
        self._x = torch.where(mirrored[:, None], at[1].flip(1), at[1])
        self._hole: tuple[torch.Tensor, torch.Tensor] | None = None
        if hole:
            centre = torch.randint(0, size, (2, count, 1), **put)
            inside = (pixel - centre).abs() <= hole // 2
            self._hole = inside[0], inside[1]

    def cut(self, pictures: torch.Tensor, rows: torch.Tensor, part: slice) -> torch.Tensor:
        """Those rows of the pictures; `part` is where the batch stands in the epoch."""
        return pictures[rows[:, None, None], self._y[part, :, None], self._x[part, None, :]]

    def finish(self, batch: torch.Tensor, part: slice) -> torch.Tensor:
        if self._hole is None:
            return batch
        hole = self._hole[0][part, :, None] & self._hole[1][part, None, :]
        return batch.masked_fill_(hole[:, None], 0.0)


def alternately(order: torch.Tensor, *, count: int, epoch: int, seed: int) -> torch.Tensor:
    """Of each picture in the order of an epoch whether it is mirrored: in every second epoch it is.

    From the seed alone, so that a training that is taken up again goes on as it would have gone on.
    """
    begins = torch.randint(0, 2, (count,), generator=torch.Generator().manual_seed(seed))
    return (begins[order] + epoch) % 2 == 1


class Cropped:
    """A random part of the picture, of at least `least` of its area, brought to `size` and mirrored."""

    def __init__(self, count: int, *, size: int, least: float, generator: torch.Generator) -> None:
        def uniform(low: float, high: float) -> torch.Tensor:
            return low + (high - low) * torch.rand(count, device=generator.device, generator=generator)

        area = uniform(least, 1.0)
        ratio = uniform(math.log(3 / 4), math.log(4 / 3)).exp()
        wide, high = ((area * r).sqrt().clamp(max=1.0) for r in (ratio, 1.0 / ratio))
        self._theta = torch.zeros(count, 2, 3, device=generator.device)
        self._theta[:, 0, 0] = wide * torch.where(uniform(0.0, 1.0) < 0.5, -1.0, 1.0)
        self._theta[:, 1, 1] = high
        self._theta[:, 0, 2] = uniform(-1.0, 1.0) * (1.0 - wide)
        self._theta[:, 1, 2] = uniform(-1.0, 1.0) * (1.0 - high)
        self._size = size

    def cut(self, pictures: torch.Tensor, rows: torch.Tensor, part: slice) -> torch.Tensor:
        del part
        return pictures[rows]

    def finish(self, batch: torch.Tensor, part: slice) -> torch.Tensor:
        theta = self._theta[part].to(batch.dtype)
        shape = (len(batch), 3, self._size, self._size)
        grid = functional.affine_grid(theta, list(shape), align_corners=False)
        cut = functional.grid_sample(batch, grid, padding_mode="reflection", align_corners=False)
        order = torch.channels_last if batch.is_contiguous(memory_format=torch.channels_last) else None
        return cut.contiguous(memory_format=order) if order else cut


def middle(pictures: torch.Tensor, size: int) -> torch.Tensor:
    """The middle square of each."""
    first = (pictures.shape[1] - size) // 2
    return pictures[:, first : first + size, first : first + size]
