# SPDX-License-Identifier: Apache-2.0
"""A running mean of a network's weights: better than the weights of the moment while these still jump."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn


class Averaged:
    """Parameters and the statistics of normalisations, averaged every few steps with a forgetting share."""

    def __init__(self, model: nn.Module, *, half_life: float, every: int) -> None:
        """`half_life`: after so many steps a weight counts half."""
        tensors = [*model.parameters(), *model.buffers()]
        self._now = [tensor.detach() for tensor in tensors if tensor.is_floating_point()]
        self._mean = [tensor.clone() for tensor in self._now]
        self._beside = [tensor.clone() for tensor in self._now]
        self._share = 1.0 - 0.5 ** (every / half_life)
        self._every = every
        self._seen = 0

    @torch.no_grad()
    def step(self, step: int) -> None:
        if step % self._every:
            return
        self._seen += 1
        # At first there is little to remember: the mean of the first n is forgotten as quickly as they come.
        share = max(self._share, 1.0 / self._seen)
        torch._foreach_lerp_(self._mean, self._now, share)

    def state(self) -> dict[str, Any]:
        return {"mean": self._mean, "seen": self._seen}

    @torch.no_grad()
    def restore(self, state: dict[str, Any]) -> None:
        torch._foreach_copy_(self._mean, state["mean"])
        self._seen = int(state["seen"])

    @contextmanager
    def put_on(self) -> Iterator[None]:
        """Inside, the network has the mean weights; they are copied, so that compiled code sees them too."""
        torch._foreach_copy_(self._beside, self._now)
        torch._foreach_copy_(self._now, self._mean)
        try:
            yield
        finally:
            torch._foreach_copy_(self._now, self._beside)
