# SPDX-License-Identifier: Apache-2.0
"""Groups, rates, decay and averaged weights at points that can be worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from joulelab.workloads.yolo_network import SIZES, Network
from joulelab.workloads.yolo_schedule import (
    Average,
    Schedule,
    nominal_accumulation,
    optimizer,
)
from tests.workloads.candle_parts import parameters


def test_warm_up_is_three_epochs_or_a_hundred_batches() -> None:
    assert Schedule(rate=0.01, epochs=100, batches=400).warmup == 1200
    assert Schedule(rate=0.01, epochs=100, batches=2).warmup == 100, "fifty epochs of a small set"


def test_rates_and_momentum_on_the_way() -> None:
    schedule = Schedule(rate=0.01, epochs=10, batches=100)
    assert schedule.at(0) == pytest.approx((0, 0.1, 0.8))
    # Half of the warm-up, in the second epoch: the rate that is aimed at is 0.9 * 0.99 + 0.01 of the first.
    aim = 0.01 * 0.901
    assert schedule.at(150) == pytest.approx((aim / 2, (0.1 + aim) / 2, (0.8 + 0.937) / 2))
    # At 300 the fourth epoch has begun.
    assert schedule.at(300) == pytest.approx((0.01 * 0.703, 0.01 * 0.703, 0.937))
    assert schedule.at(301) == schedule.at(399)
    assert schedule.at(999) == pytest.approx((0.01 * 0.109, 0.01 * 0.109, 0.937))
    assert schedule.at(1000) == pytest.approx((0.0001, 0.0001, 0.937)), "after the last batch"


@pytest.mark.parametrize(("batch", "want"), [(1, 64), (16, 4), (32, 2), (48, 1), (64, 1), (512, 1)])
def test_batches_of_a_nominal_step(batch: int, want: int) -> None:
    assert nominal_accumulation(batch) == want


def test_three_groups_of_which_one_decays() -> None:
    with torch.device("meta"):
        net = Network(SIZES["s"], classes=60)
    made = optimizer(net, rate=0.01, samples_a_step=512)
    norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    weights = sum(c.weight.numel() for c in net.modules() if isinstance(c, nn.Conv2d))
    channels = sum(norm.num_features for norm in norms)
    sizes = [sum(p.numel() for p in group["params"]) for group in made.param_groups]
    assert sizes == [channels + 3 * 3 * 65, weights, channels]
    assert sum(sizes) == parameters(net)
    assert [group["weight_decay"] for group in made.param_groups] == pytest.approx([0, 4e-3, 0])
    assert all(group["nesterov"] and not group["fused"] for group in made.param_groups)
    Schedule(rate=0.01, epochs=10, batches=10).put(made, batch=0)
    assert [group["lr"] for group in made.param_groups] == pytest.approx([0.1, 0, 0])
    assert {group["momentum"] for group in made.param_groups} == {0.8}


@pytest.mark.parametrize("length", [1.0, 400.0])
def test_a_gradient_longer_than_ten_is_shortened(length: float) -> None:
    layer = nn.Linear(2, 1)
    made = optimizer(layer, rate=1.0, samples_a_step=64)
    for group in made.param_groups:
        group["weight_decay"] = 0.0
        group["momentum"], group["nesterov"] = 0.0, False
    before = [p.detach().clone() for p in layer.parameters()]
    assert layer.bias is not None
    layer.weight.grad = torch.tensor([[0.6 * length, 0.0]])
    layer.bias.grad = torch.tensor([0.8 * length])
    made.step()
    moved = [float((a - b.detach()).norm()) for a, b in zip(before, layer.parameters(), strict=True)]
    assert math.hypot(*moved) == pytest.approx(min(length, 10.0), rel=1e-4)


def test_a_step_that_loss_scaling_skips_moves_nothing() -> None:
    layer = nn.Linear(2, 1)
    made = optimizer(layer, rate=1.0, samples_a_step=64)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    before = layer.weight.detach().clone()
    scaler.scale(layer(torch.full((1, 2), float("inf"))).sum()).backward()
    scaler.step(made)
    assert torch.equal(layer.weight, before)


def test_the_average_follows_slower_and_slower() -> None:
    layer = nn.BatchNorm1d(1)
    average = Average(layer)
    want = 1.0
    for step in range(1, 4):
        with torch.no_grad():
            layer.weight.fill_(1.0 + step)
            layer.running_mean.fill_(10.0 * step)  # type: ignore[union-attr]
        average.follow(layer)
        decay = 0.9999 * (1 - math.exp(-step / 2000))
        want = decay * want + (1 - decay) * (1.0 + step)
        assert float(average.model.weight) == pytest.approx(want)  # type: ignore[arg-type]
    assert float(average.model.running_mean) == pytest.approx(30.0, rel=1e-2)  # type: ignore[arg-type]
    assert not average.model.training
    assert not any(p.requires_grad for p in average.model.parameters())
    average.updates = 100_000
    average.follow(layer)
    assert float(average.model.weight) == pytest.approx(0.9999 * want + 0.0001 * 4.0)  # type: ignore[arg-type]
