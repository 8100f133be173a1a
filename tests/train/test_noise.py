# SPDX-License-Identifier: Apache-2.0
"""The noise of gradients, against gradients whose noise is known."""

from __future__ import annotations

import math

import pytest
import torch

from joulelab.train.noise import Noise, gain
from joulelab.train.ranks import Ranks

WIDTH = 2_000


class Several(Ranks):
    """Stands in for `workers` ranks: each has heard as much as this one."""

    def __init__(self, workers: int) -> None:
        self.count = workers

    def add(self, sums: torch.Tensor) -> torch.Tensor:
        return sums * self.count


def one_parameter() -> tuple[torch.nn.Parameter, torch.optim.Optimizer]:
    weight = torch.nn.Parameter(torch.zeros(WIDTH))
    return weight, torch.optim.SGD([weight], lr=0.1)


@pytest.mark.parametrize(
    ("ratio", "workers", "expected"),
    [
        (0.0, 8, 1.0),
        (math.inf, 8, 8.0),
        (1.0, 4, 1.6),
        (7.0, 8, 64 / 15),
        (-3.0, 8, 1.0),
    ],
)
def test_the_gain_lies_between_one_and_the_number_of_workers(
    ratio: float, workers: int, expected: float
) -> None:
    assert gain(ratio, workers) == pytest.approx(expected)


def test_the_noise_scale_of_known_gradients_is_found() -> None:
    workers, batch, signal, noise = 16, 20, 0.5, 1.5  # a component's signal, and its deviation in one worker
    weight, optimizer = one_parameter()
    rate = Noise(workers=workers, batch_size=batch, turns=workers)
    rate.watch(optimizer, ranks=Ranks())
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        weight.grad = torch.zeros(WIDTH)
        for _ in range(workers):
            weight.grad += (signal + noise * torch.randn(WIDTH, generator=generator)) / workers
            rate.backward(optimizer, of=workers)
        rate.ready(optimizer)
    ratio = (noise / signal) ** 2
    assert rate.noise_scale == pytest.approx(batch * ratio, rel=0.03)
    assert rate.gain == pytest.approx(gain(ratio, workers), rel=0.02)


def test_a_step_is_taken_with_the_gain_and_the_rate_is_put_back() -> None:
    weight, optimizer = one_parameter()
    rate = Noise(workers=4, batch_size=8, turns=1)
    rate.watch(optimizer, ranks=Several(4))
    for _ in range(3):
        weight.grad = torch.full((WIDTH,), 0.25)
        rate._hear(torch.full((WIDTH,), 1.0))
        rate.ready(optimizer)
        before = weight.detach().clone()
        optimizer.step()
        assert optimizer.param_groups[0]["lr"] == 0.1
        moved = (before - weight.detach()) / 0.25
        assert moved == pytest.approx(0.1 * rate.gain, rel=1e-5)
    assert rate.gain == pytest.approx(4.0), (
        "each worker's square is sixteen times that of the mean: noise alone"
    )
    assert rate.progress == pytest.approx(1.0 + 4.0 + 4.0), "the first step knows nothing yet"


def test_an_overflow_leaves_what_was_known() -> None:
    weight, optimizer = one_parameter()
    rate = Noise(workers=4, batch_size=8, turns=1)
    rate.watch(optimizer, ranks=Several(4))
    for value in (1.0, math.inf, 1.0):
        weight.grad = torch.full((WIDTH,), value)
        rate._hear(torch.full((WIDTH,), 1.1 * value))
        rate.ready(optimizer)
        optimizer.step()
    assert math.isfinite(rate.noise_scale)
    assert 1.0 < rate.gain < 4.0
    assert rate.figures().keys() == {"rate_gain", "progress_steps", "noise_scale"}
