# SPDX-License-Identifier: Apache-2.0
"""Pictures made of two: a part of one in another (CutMix), or both shining through (mixup).

The label is mixed as the pictures are: the loss is that of both labels, by the share of pixels each has. All
shares are equally likely, as in both papers for pictures of 32 px.
"""

from __future__ import annotations

from typing import Any

import torch


class Mixed:
    """Each picture of a batch with the one that stands as far from the end as it does from the start."""

    def __init__(self, count: int, *, size: int, how: str, share: float, generator: torch.Generator) -> None:
        """`share` of the pictures are mixed; `how`: cutmix, mixup, or both (each picture one of the two)."""
        put: dict[str, Any] = {"device": generator.device, "generator": generator}
        # Drawn in full whatever is asked for: that a picture is mixed does not move the next one's draws.
        own, taken, cut = torch.rand(3, count, **put)
        centre = size * torch.rand(2, count, 1, **put)
        mixed = taken < share
        boxed = mixed & (cut < {"cutmix": 1.0, "mixup": 0.0, "both": 0.5}[how])
        half = (size * (1.0 - own).sqrt() / 2)[:, None] * boxed[:, None]
        self._first = (centre - half).round().clamp(0, size)
        self._end = torch.where(boxed[:, None], (centre + half).round().clamp(0, size), self._first)
        self._own = torch.where(mixed & ~boxed, own, 1.0)
        self._pixel = torch.arange(size, device=generator.device)

    def __call__(
        self, batch: torch.Tensor, labels: torch.Tensor, part: slice
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The mixed pictures, the labels of the others in them, and the share that each has of its own.

        `part` is where the batch stands in the epoch.
        """
        inside = (self._pixel >= self._first[:, part]) & (self._pixel < self._end[:, part])
        box = inside[0, :, :, None] & inside[1, :, None, :]
        own = (self._own[part, None, None] * ~box).to(batch.dtype)
        # With weights of 0 and 1 these are the pixels themselves, to the bit.
        return torch.lerp(batch.flip(0), batch, own[:, None]), labels.flip(0), own.mean((1, 2))
