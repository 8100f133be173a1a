# SPDX-License-Identifier: Apache-2.0
"""KerasAdam takes the steps of Keras 2.2, and is counted once a step by whoever watches it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from joulelab.workloads.keras_adam import KerasAdam


def keras(weight: float, gradients: list[float]) -> list[float]:
    """The rule as Keras 2.2 writes it, in double precision."""
    m = v = 0.0
    path = []
    for t, g in enumerate(gradients, start=1):
        rate = 1e-3 * np.sqrt(1.0 - 0.999**t) / (1.0 - 0.9**t)
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        weight -= rate * m / (np.sqrt(v) + 1e-7)
        path.append(weight)
    return path


@pytest.mark.parametrize("size", [1.0, 1e-6, 1e-8])
def test_it_takes_the_steps_of_keras(size: float) -> None:
    gradients = (size * np.random.default_rng(0).standard_normal(50)).tolist()
    weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = KerasAdam([weight])
    path = []
    for gradient in gradients:
        weight.grad = torch.full_like(weight, gradient)
        optimizer.step()
        path.append(float(weight.detach()))
    assert path == pytest.approx(keras(0.0, gradients), rel=1e-9)


def test_torchs_own_adam_does_not() -> None:
    weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = torch.optim.Adam([weight], lr=1e-3, eps=1e-7)
    weight.grad = torch.full_like(weight, 1e-6)
    optimizer.step()
    assert float(weight.detach()) != pytest.approx(keras(0.0, [1e-6])[0], rel=0.1)


def test_its_state_goes_on_after_it_was_saved() -> None:
    weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = KerasAdam([weight])
    for _ in range(3):
        weight.grad = torch.full_like(weight, 1e-7)
        optimizer.step()
    restored = KerasAdam([weight])
    restored.load_state_dict(optimizer.state_dict())
    weight.grad = torch.full_like(weight, 1e-7)
    restored.step()
    assert float(weight.detach()) == pytest.approx(keras(0.0, [1e-7] * 4)[-1], rel=1e-9)


def test_a_step_is_counted_once_even_where_adam_was_used_before() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    torch.optim.Adam([weight])
    optimizer = KerasAdam([weight])
    taken = []
    optimizer.register_step_post_hook(lambda *_: taken.append(1))
    weight.grad = torch.ones(1)
    optimizer.step()
    assert len(taken) == 1
