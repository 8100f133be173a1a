# SPDX-License-Identifier: Apache-2.0
"""Eight-bit products against full ones: within what the formats can hold, forwards and backwards."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from joulelab.train.fp8 import BACKWARD, FORWARD, Fp8Linear, fitted, quantised


@pytest.mark.parametrize(("kind", "digits"), [(FORWARD, 4), (BACKWARD, 3)])
def test_a_tensor_fills_its_format(kind: torch.dtype, digits: int) -> None:
    torch.manual_seed(0)
    tensor = torch.randn(64, 64) * 1e-5
    eighth, factor = quantised(tensor, kind)
    assert eighth.float().abs().amax() == torch.finfo(kind).max
    back = eighth.float() * factor
    large = tensor.abs() > 1e-2 * tensor.abs().amax()
    assert ((back - tensor).abs()[large] / tensor.abs()[large]).amax() <= 2.0**-digits * 1.01


def test_nothing_but_zeros_stays_zero_and_what_is_not_finite_is_not_hidden() -> None:
    eighth, factor = quantised(torch.zeros(16, 16), FORWARD)
    assert not (eighth.float() * factor).any()
    broken = torch.ones(16, 16)
    broken[0, 0] = float("nan")
    eighth, factor = quantised(broken, FORWARD)
    assert not (eighth.float() * factor).isfinite().all()


@pytest.mark.parametrize("rows", [32, 20, 1])
def test_outputs_and_gradients_are_those_of_the_full_layer(rows: int) -> None:
    torch.manual_seed(rows)
    full = nn.Linear(64, 48)
    eight = nn.Linear(64, 48)
    eight.load_state_dict(full.state_dict())
    assert fitted(eight) == 1
    assert isinstance(eight, Fp8Linear)
    x = torch.randn(rows, 64)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    slope = torch.randn(rows, 48)
    outs = [layer(given) for layer, given in zip((full, eight), inputs, strict=True)]
    for out in outs:
        (out.float() * slope).sum().backward()
    pairs = [
        (outs[1], outs[0]),
        (inputs[1].grad, inputs[0].grad),
        (eight.weight.grad, full.weight.grad),
        (eight.bias.grad, full.bias.grad),
    ]
    for found, wanted in pairs:
        assert found is not None
        assert wanted is not None
        assert found.shape == wanted.shape
        off = (found.float() - wanted).norm() / wanted.norm()
        assert off < 0.08
    assert (outs[1].float() - outs[0]).abs().amax() > 1e-4, "eight bits leave a trace, or were not used"


def test_a_network_learns_in_eight_bits() -> None:
    torch.manual_seed(0)
    x = torch.randn(256, 32)
    y = (x[:, :1] * x[:, 1:2] > 0).long()[:, 0]
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 2))
    assert fitted(model) == 1
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        with torch.autocast("cpu", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    assert loss.item() < 0.2
