# SPDX-License-Identifier: Apache-2.0
"""How YOLOv5 is trained: three groups of weights, a warm-up by steps, and an average of the weights."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator

NOMINAL_BATCH = 64
MOMENTUM, FIRST_MOMENTUM = 0.937, 0.8
WEIGHT_DECAY = 5e-4  # at the nominal batch
LAST_SHARE = 0.01  # of the learning rate, at the end
FIRST_BIAS_RATE = 0.1
WARMUP_EPOCHS, WARMUP_BATCHES = 3, 100
LARGEST_GRADIENT = 10.0
AVERAGE_DECAY, AVERAGE_STEPS = 0.9999, 2000


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The learning rates and the momentum at a batch, counted from 0 over all epochs."""

    rate: float
    epochs: int
    batches: int  # of an epoch

    @property
    def warmup(self) -> int:
        """How many batches it takes; with few batches to an epoch, that is many epochs."""
        return max(WARMUP_EPOCHS * self.batches, WARMUP_BATCHES)

    def at(self, batch: int) -> tuple[float, float, float]:
        """The rate of weights, the rate of biases, the momentum."""
        done = min(batch // self.batches, self.epochs) / self.epochs
        rate = self.rate * ((1 - done) * (1 - LAST_SHARE) + LAST_SHARE)
        if batch > self.warmup:
            return rate, rate, MOMENTUM
        share = batch / self.warmup
        bias = FIRST_BIAS_RATE + share * (rate - FIRST_BIAS_RATE)
        return share * rate, bias, FIRST_MOMENTUM + share * (MOMENTUM - FIRST_MOMENTUM)

    def put(self, optimizer: torch.optim.Optimizer, *, batch: int) -> None:
        weights, biases, momentum = self.at(batch)
        for group in optimizer.param_groups:
            group["lr"] = biases if group["is_bias"] else weights
            group["momentum"] = momentum


def nominal_accumulation(batch_size: int) -> int:
    """Batches that the original adds up to a step, so that a step is of about 64 pictures."""
    return max(round(NOMINAL_BATCH / batch_size), 1)


def optimizer(model: nn.Module, *, rate: float, samples_a_step: int) -> torch.optim.Optimizer:
    """SGD with Nesterov's momentum over biases, weights (these alone decay) and the factors of batch norm."""
    groups: dict[str, list[nn.Parameter]] = {"biases": [], "weights": [], "factors": []}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if name == "bias":
                groups["biases"].append(parameter)
            else:
                groups["factors" if isinstance(module, nn.BatchNorm2d) else "weights"].append(parameter)
    decay = WEIGHT_DECAY * samples_a_step / NOMINAL_BATCH
    # foreach, not fused: a fused step hides from the loop that loss scaling skipped it.
    made = torch.optim.SGD(
        [
            {"params": groups["biases"], "weight_decay": 0.0, "is_bias": True},
            {"params": groups["weights"], "weight_decay": decay, "is_bias": False},
            {"params": groups["factors"], "weight_decay": 0.0, "is_bias": False},
        ],
        lr=rate,
        momentum=MOMENTUM,
        nesterov=True,
        foreach=True,
    )
    everything = [parameter for group in groups.values() for parameter in group]

    def clip(*_: Any) -> None:
        # Before a step the gradients are unscaled already, and a step that is skipped does not come here.
        nn.utils.clip_grad_norm_(everything, LARGEST_GRADIENT, foreach=True)

    made.register_step_pre_hook(clip)
    return made


class Average:
    """A copy of a network whose weights follow those of the network, slower the longer it has been trained.

    It is what is evaluated. Its statistics of batch norm are averaged likewise.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.updates = 0

    @torch.no_grad()
    def follow(self, model: nn.Module) -> None:
        self.updates += 1
        decay = AVERAGE_DECAY * (1 - math.exp(-self.updates / AVERAGE_STEPS))
        torch._foreach_lerp_(list(_floats(self.model)), list(_floats(model)), 1 - decay)


def _floats(model: nn.Module) -> Iterator[torch.Tensor]:
    """Weights and running statistics, in an order that a wrapper around the model does not change."""
    yield from (parameter.data for parameter in model.parameters())
    yield from (buffer for buffer in model.buffers() if buffer.is_floating_point())
