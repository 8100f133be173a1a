# SPDX-License-Identifier: Apache-2.0
"""The mean of the weights follows as it should, is worn for an evaluation, and is taken off again."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from joulelab.workloads.averaged import Averaged


def layer() -> nn.BatchNorm1d:
    """Two weights that are learnt, two that are counted, and one whole number."""
    return nn.BatchNorm1d(1)


def put(norm: nn.BatchNorm1d, value: float) -> None:
    with torch.no_grad():
        norm.weight.fill_(value)
        assert norm.running_mean is not None
        norm.running_mean.fill_(10 * value)


def worn(mean: Averaged, norm: nn.BatchNorm1d) -> tuple[float, float]:
    with mean.put_on():
        assert norm.running_mean is not None
        return float(norm.weight.detach()), float(norm.running_mean)


def test_the_first_ones_are_a_plain_mean_and_later_ones_forget() -> None:
    norm = layer()
    mean = Averaged(norm, half_life=4.0, every=2)
    share = 1 - 0.5 ** (2 / 4)
    put(norm, 1.0)
    mean.step(2)
    assert worn(mean, norm) == (1.0, 10.0), "the weights of the start are forgotten at once"
    put(norm, 3.0)
    mean.step(4)
    assert worn(mean, norm) == pytest.approx((2.0, 20.0))
    put(norm, 5.0)
    mean.step(6)
    assert worn(mean, norm)[0] == pytest.approx(2.0 + 3.0 / 3)
    put(norm, 7.0)
    mean.step(8)
    assert share > 1 / 4
    assert worn(mean, norm)[0] == pytest.approx(3.0 + 4.0 * share)


def test_steps_between_are_not_looked_at() -> None:
    norm = layer()
    mean = Averaged(norm, half_life=4.0, every=3)
    for step, value in enumerate((1.0, 2.0, 3.0, 4.0, 5.0), start=1):
        put(norm, value)
        mean.step(step)
    assert worn(mean, norm) == (3.0, 30.0)


def test_after_its_half_life_a_weight_counts_half() -> None:
    norm = layer()
    mean = Averaged(norm, half_life=12.0, every=4)
    put(norm, 1.0)
    for step in range(4, 400, 4):
        mean.step(step)
    put(norm, 0.0)
    for step in (400, 404, 408):
        mean.step(step)
    assert worn(mean, norm)[0] == pytest.approx(0.5)


def test_what_was_there_before_is_there_again_also_after_an_error() -> None:
    norm = layer()
    mean = Averaged(norm, half_life=4.0, every=1)
    put(norm, 2.0)
    mean.step(1)
    put(norm, 6.0)
    same = norm.weight.data_ptr()

    def fail() -> None:
        with mean.put_on():
            assert float(norm.weight.detach()) == 2.0
            assert norm.weight.data_ptr() == same, "compiled code looks at this memory"
            raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            fail()
        assert float(norm.weight.detach()) == 6.0
        assert norm.weight.requires_grad


def test_whole_numbers_are_left_alone_and_no_gradient_is_kept() -> None:
    norm = layer()
    mean = Averaged(norm, half_life=4.0, every=1)
    norm(torch.randn(4, 1)).sum().backward()
    mean.step(1)
    with mean.put_on():
        assert int(norm.num_batches_tracked or 0) == 1
    assert norm.weight.grad is not None


def test_a_mean_goes_on_from_its_state() -> None:
    norms = layer(), layer()
    one, other = (Averaged(norm, half_life=4, every=2) for norm in norms)
    for step in range(1, 7):
        for norm in norms:
            put(norm, float(step))
        one.step(step)
        if step == 4:
            other.restore(one.state())
        elif step > 4:
            other.step(step)
    assert worn(other, norms[1]) == worn(one, norms[0])
