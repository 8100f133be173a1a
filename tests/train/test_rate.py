# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
import torch

from joulelab.train.ranks import Ranks
from joulelab.train.rate import Rate, Warmup, gradients


def optimizer() -> tuple[torch.nn.Parameter, torch.optim.Optimizer]:
    weight = torch.nn.Parameter(torch.zeros(1))
    weight.grad = torch.ones(1)
    return weight, torch.optim.SGD([weight], lr=0.8)


def steps(rate: Rate, count: int, *, cut_at: int = -1) -> list[float]:
    weight, made = optimizer()
    rate.watch(made, ranks=Ranks())
    taken = []
    for number in range(count):
        if number == cut_at:
            made.param_groups[0]["lr"] *= 0.1
        before = weight.item()
        made.step()
        taken.append(before - weight.item())
    return taken


def test_the_neutral_rate_is_the_workloads() -> None:
    assert steps(Rate(), 3) == pytest.approx([0.8] * 3)
    assert Rate().figures() == {}


def test_a_warm_up_rises_from_the_rate_of_one_worker_to_that_of_the_rule() -> None:
    assert steps(Warmup(times=8.0, updates=4), 6) == pytest.approx([0.1, 0.275, 0.45, 0.625, 0.8, 0.8])


def test_a_schedule_that_cuts_the_rate_finds_what_it_wrote() -> None:
    assert steps(Warmup(times=8.0, updates=2), 4, cut_at=3) == pytest.approx([0.1, 0.45, 0.8, 0.08])


def test_gradients_are_those_that_are_there() -> None:
    weight, made = optimizer()
    assert gradients(made) == [weight.grad]
    weight.grad = None
    assert gradients(made) == []
