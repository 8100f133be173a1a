# SPDX-License-Identifier: Apache-2.0
"""One strong change to each picture, drawn from ten, by any amount in its range, on the device in batches.

In the manner of TrivialAugment (Mueller and Hutter 2021), with the ranges of RandAugment (Cubuk et al. 2020)
and of their operations those that are a matrix for each picture: what sorts pixels by value (equalize,
posterize, solarize, sharpness) is left out.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

# Nought is the tenth: such a picture stays as it is.
TURN, SHEAR_X, SHEAR_Y, SHIFT_X, SHIFT_Y, ZOOM, BRIGHTNESS, CONTRAST, SATURATION = range(1, 10)
CHANGES = 10
ANGLE = math.radians(30)
SHEAR = 0.3
SHIFT = 2 * 0.3  # of half a side, which is what places are counted in
SCALE = math.log(1.4)
COLOUR = 0.9  # from a tenth to nearly twice as much
GREY = (0.299, 0.587, 0.114)  # what the colours weigh in it (ITU-R BT.601), as in Pillow


class Strong:
    """Colours change on bytes, before they are normalised; places after it, with grey beyond the border."""

    def __init__(self, count: int, *, generator: torch.Generator) -> None:
        put: dict[str, Any] = {"device": generator.device, "generator": generator}
        which = torch.randint(0, CHANGES, (count,), **put)
        by = 2.0 * torch.rand(count, **put) - 1.0

        def of(change: int) -> torch.Tensor:
            return torch.where(which == change, by, 0.0)

        angle, zoom = ANGLE * of(TURN), (SCALE * of(ZOOM)).exp()
        self._theta = torch.zeros(count, 2, 3, device=generator.device)
        self._theta[:, 0, 0] = self._theta[:, 1, 1] = zoom * angle.cos()
        self._theta[:, 0, 1] = SHEAR * of(SHEAR_X) - angle.sin()
        self._theta[:, 1, 0] = SHEAR * of(SHEAR_Y) + angle.sin()
        self._theta[:, 0, 2] = SHIFT * of(SHIFT_X)
        self._theta[:, 1, 2] = SHIFT * of(SHIFT_Y)
        each = (count, 1, 1, 1)
        factor = 1.0 + COLOUR * (of(BRIGHTNESS) + of(CONTRAST) + of(SATURATION))
        self._factor = factor.view(each)
        self._contrast, self._saturation = (which == CONTRAST).view(each), (which == SATURATION).view(each)
        self._grey = torch.tensor(GREY, device=generator.device)

    def colour(self, pictures: torch.Tensor, part: slice) -> torch.Tensor:
        """Bytes of (batch, height, width, 3) to numbers from 0 to 255; `part` is the place in the epoch."""
        given = pictures.float()
        grey = (given * self._grey).sum(3, keepdim=True)
        # Away from black, from the picture's mean, from its own grey: or towards it.
        mean = grey.mean((1, 2), keepdim=True)
        still = torch.where(self._contrast[part], mean, grey * self._saturation[part])
        # A factor of one gives the pixels themselves, to the bit.
        return torch.lerp(still.expand_as(given), given, self._factor[part]).clamp_(0.0, 255.0)

    def place(self, batch: torch.Tensor, part: slice) -> torch.Tensor:
        """Turned, sheared, shifted or scaled; from outside comes nought, the mean of all pictures."""
        grid = functional.affine_grid(
            self._theta[part].to(batch.dtype), list(batch.shape), align_corners=False
        )
        order = torch.channels_last if batch.is_contiguous(memory_format=torch.channels_last) else None
        moved = functional.grid_sample(batch, grid, padding_mode="zeros", align_corners=False)
        return moved.contiguous(memory_format=order) if order else moved
