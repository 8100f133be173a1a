# SPDX-License-Identifier: Apache-2.0
"""Workloads that listen to the knobs of power: one that ends, one that is there to be stopped."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from joulelab.workloads.recipe import Recipe
from tests.train.train_parts import KNOBS, FakeMeter, FakeWindow, Toy

if TYPE_CHECKING:
    from torch import nn

    from joulelab.records.parameter import Scalar
    from joulelab.workloads.workload import Step

POWER: dict[str, Scalar] = {**KNOBS, "power_limit": "as-is", "cpu_power_limit": "as-is"}


class Capped(Toy):
    recipe = Recipe(summary="a toy that can be capped", knobs=POWER)


class Endless(Capped):
    """Each step takes a while, and there are many."""

    def loss(self, model: nn.Module, batch: Any) -> Step:
        time.sleep(0.02)
        return super().loss(model, batch)


class Failing(Capped):
    def loss(self, model: nn.Module, batch: Any) -> Step:
        raise ValueError("a user's mistake")


class WatchingMeter(FakeMeter):
    """Notes how the machine stands when the figure of the whole trial is asked for: that may take long."""

    def __init__(self, *, state: Any, **settings: Any) -> None:
        super().__init__(**settings)
        self.state = state
        self.at_the_end: list[dict[str, int]] = []

    def window(self, name: str) -> FakeWindow:
        return WatchingWindow(self, name)


class WatchingWindow(FakeWindow):
    @property
    def measurement(self) -> Any:
        assert isinstance(self.meter, WatchingMeter)
        if self.name == "trial":
            self.meter.at_the_end.append(self.meter.state())
        return super().measurement
