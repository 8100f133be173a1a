# SPDX-License-Identifier: Apache-2.0
"""What the learning rate is multiplied by in each step, whatever the workload's own schedule says.

The base class multiplies by 1. A step is taken with the larger rate and the rate put back after it, so a
schedule that reads the rate, or cuts it, finds what it wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from joulelab.train.ranks import Ranks


class Rate:
    """The rate is the workload's."""

    def watch(self, optimizer: torch.optim.Optimizer, *, ranks: Ranks) -> None:
        """Call once, before the first step."""

    def backward(self, optimizer: torch.optim.Optimizer, *, of: int) -> None:
        """The gradients of one batch have been added to those of its step, which has `of` batches."""

    def ready(self, optimizer: torch.optim.Optimizer) -> None:
        """The gradients of a step are complete, and averaged over the workers."""

    def figures(self) -> dict[str, float]:
        """What was found on the way, for the line of an epoch."""
        return {}

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """What `state` gave."""


class Multiplied(Rate):
    """The base of those that change it: `factor` says by how much."""

    def __init__(self) -> None:
        self._put_back: list[float] = []

    def factor(self) -> float:
        raise TypeError(f"{type(self).__name__} does not define factor()")

    def watch(self, optimizer: torch.optim.Optimizer, *, ranks: Ranks) -> None:
        del ranks
        optimizer.register_step_pre_hook(self._before)
        optimizer.register_step_post_hook(self._after)

    def _before(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        times = self.factor()
        self._put_back = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * times

    def _after(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group, rate in zip(optimizer.param_groups, self._put_back, strict=True):
            group["lr"] = rate


class Warmup(Multiplied):
    """From the rate of one worker, in a straight line over so many steps, to that of the rule."""

    def __init__(self, *, times: float, updates: int) -> None:
        super().__init__()
        self._first, self._updates, self._taken = 1.0 / times, updates, 0

    def state(self) -> dict[str, Any]:
        return {"taken": self._taken}

    def restore(self, state: dict[str, Any]) -> None:
        self._taken = state["taken"]

    def factor(self) -> float:
        share = min(1.0, self._taken / self._updates)
        self._taken += 1
        return self._first + (1.0 - self._first) * share


def gradients(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
