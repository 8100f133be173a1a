# SPDX-License-Identifier: Apache-2.0
"""Optimizers for large batches, which scale each layer's step by the size of its weights.

LARS: You et al. 2017 (arXiv 1708.03888). LAMB: You et al. 2020 (arXiv 1904.00962). Biases and scales, which
have one dimension, are moved as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

TRUST = 0.001  # of LARS: how far a layer moves in a step, as a share of its weights
MOMENTUM = 0.9
BETAS, EPSILON = (0.9, 0.999), 1e-6


class Layerwise(torch.optim.Optimizer):
    """Takes over the groups of another optimizer, the very same ones: schedules that hold them go on."""

    def __init__(self, other: torch.optim.Optimizer) -> None:
        super().__init__([{"params": [torch.zeros(1)]}], {"lr": 0.0, "weight_decay": 0.0})
        self.param_groups = other.param_groups

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        groups = self.param_groups
        super().load_state_dict(state_dict)
        # The groups stay those that the schedules hold.
        for group, loaded in zip(groups, self.param_groups, strict=True):
            group.update(loaded)
        self.param_groups = groups

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, group)

    def _move(self, weight: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any]) -> None:
        raise TypeError(f"{type(self).__name__} does not define _move()")


class Lars(Layerwise):
    def _move(self, weight: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any]) -> None:
        decay = group.get("weight_decay", 0.0)
        pull = gradient + decay * weight if decay else gradient.clone()
        if weight.ndim > 1:
            size, slope = weight.norm(), gradient.norm()
            trust = TRUST * size / (slope + decay * size)
            # Where either is nothing there is nothing to compare: the step stays as it is.
            pull *= torch.where((size > 0) & (slope > 0), trust, torch.ones_like(trust))
        speed = self.state[weight].setdefault("speed", torch.zeros_like(weight))
        speed.mul_(MOMENTUM).add_(pull, alpha=group["lr"])
        weight.sub_(speed)


class Lamb(Layerwise):
    def _move(self, weight: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        if not state:
            state["step"], state["mean"], state["square"] = (
                0,
                torch.zeros_like(weight),
                torch.zeros_like(weight),
            )
        state["step"] += 1
        state["mean"].lerp_(gradient, 1.0 - BETAS[0])
        state["square"].mul_(BETAS[1]).addcmul_(gradient, gradient, value=1.0 - BETAS[1])
        mean = state["mean"] / (1.0 - BETAS[0] ** state["step"])
        square = state["square"] / (1.0 - BETAS[1] ** state["step"])
        pull = mean / (square.sqrt() + EPSILON) + group.get("weight_decay", 0.0) * weight
        if weight.ndim > 1:
            size, slope = weight.norm(), pull.norm()
            trust = size / slope
            pull *= torch.where((size > 0) & (slope > 0), trust, torch.ones_like(trust))
        weight.sub_(pull, alpha=group["lr"])


LAYERWISE: dict[str, type[Layerwise]] = {"lars": Lars, "lamb": Lamb}
