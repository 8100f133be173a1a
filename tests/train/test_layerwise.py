# SPDX-License-Identifier: Apache-2.0
"""Steps of LARS and LAMB, worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from joulelab.train.layerwise import LAYERWISE, Lamb, Lars


def made(decay: float = 0.0) -> tuple[torch.nn.Parameter, torch.nn.Parameter, torch.optim.Optimizer]:
    weight = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    bias = torch.nn.Parameter(torch.tensor([1.0]))
    groups: list[dict[str, Any]] = [{"params": [weight], "weight_decay": decay}, {"params": [bias]}]
    other = torch.optim.SGD(groups, lr=2.0)
    weight.grad, bias.grad = torch.tensor([[0.0, 2.0]]), torch.tensor([0.5])
    return weight, bias, other


def test_lars_moves_a_layer_by_a_share_of_its_weights_with_momentum() -> None:
    weight, bias, other = made()
    optimizer = Lars(other)
    optimizer.step()
    # |w| = 5, |g| = 2: the gradient is scaled by 0.001 x 5 / 2; a bias is not.
    first = 2.0 * 2.0 * 0.0025
    assert weight.tolist() == [[3.0, pytest.approx(4.0 - first)]]
    assert bias.item() == pytest.approx(1.0 - 2.0 * 0.5)
    optimizer.step()
    size = math.hypot(3.0, 4.0 - first)
    second = 0.9 * first + 2.0 * 2.0 * 0.001 * size / 2.0
    assert weight[0, 1].item() == pytest.approx(4.0 - first - second)


def test_decay_counts_as_pull_and_in_the_trust() -> None:
    weight, _, other = made(decay=0.1)
    Lars(other).step()
    trust = 0.001 * 5.0 / (2.0 + 0.1 * 5.0)
    assert weight[0].tolist() == pytest.approx([3.0 - 2.0 * trust * 0.3, 4.0 - 2.0 * trust * 2.4])


def test_lamb_moves_along_adam_by_the_size_of_the_weights() -> None:
    weight, bias, other = made()
    Lamb(other).step()
    # The first direction of Adam is the sign; |w| / |r| = 5.
    assert weight[0].tolist() == pytest.approx([3.0, 4.0 - 2.0 * 5.0], rel=1e-5)
    assert bias.item() == pytest.approx(1.0 - 2.0, rel=1e-5)


@pytest.mark.parametrize("name", LAYERWISE)
def test_a_schedule_of_the_replaced_optimizer_goes_on(name: str) -> None:
    weight, _, other = made()
    optimizer = LAYERWISE[name](other)
    other.param_groups[0]["lr"] = 0.0
    before = weight.detach().clone()
    optimizer.step()
    assert torch.equal(weight, before)
    optimizer.zero_grad(set_to_none=True)
    assert weight.grad is None


@pytest.mark.parametrize("name", LAYERWISE)
def test_nothing_to_compare_with_is_no_division_by_nought(name: str) -> None:
    weight, _, other = made()
    with torch.no_grad():
        weight.zero_()
    LAYERWISE[name](other).step()
    assert bool(torch.isfinite(weight).all())
