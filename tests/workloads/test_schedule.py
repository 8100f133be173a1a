# SPDX-License-Identifier: Apache-2.0
"""Rates and sizes at points that can be worked out by hand."""

from __future__ import annotations

import pytest

from joulelab.workloads.schedule import picture_size, stairs, triangle


def test_stairs_of_ninety_epochs() -> None:
    assert [stairs(epoch / 90) for epoch in (0, 29, 29.99)] == [1.0] * 3
    assert [stairs(epoch / 90) for epoch in (30, 59)] == pytest.approx([0.1] * 2)
    assert [stairs(epoch / 90) for epoch in (60, 89, 90, 100)] == pytest.approx([0.01] * 4)


@pytest.mark.parametrize("steps", [3, 30, 333, 450_450])
def test_a_stair_is_taken_at_its_step_whatever_the_sum_rounds_to(steps: int) -> None:
    first = [
        next(step for step in range(steps + 1) if stairs(step / steps) < 0.5 * least) for least in (1, 0.1)
    ]
    assert first == [-(-steps // 3), -(-2 * steps // 3)]


def test_the_triangle() -> None:
    assert triangle(0.0) == pytest.approx(0.1)
    assert triangle(0.1) == pytest.approx(0.55)
    assert triangle(0.2) == pytest.approx(1.0)
    assert triangle(0.6) == pytest.approx(0.505)
    assert triangle(1.0) == triangle(1.5) == pytest.approx(0.01)
    assert triangle(0.5, top=0.5, first=0.0, last=0.0) == 1.0


def test_pictures_grow_to_their_full_size() -> None:
    sizes = [picture_size(k / 18, full=224) for k in range(18)]
    assert sizes[0] == 128
    assert sizes == sorted(sizes)
    assert set(sizes) == {128, 160, 192, 224}
    assert sizes[12:] == [224] * 6, "from two thirds of the training on"
    assert sizes[11] == 224 or sizes[10] < 224


@pytest.mark.parametrize("full", [65, 96, 100, 224, 225, 288])
def test_the_full_size_is_reached_and_none_is_larger(full: int) -> None:
    sizes = [picture_size(k / 30, full=full) for k in range(30)]
    assert sizes[20:] == [full] * 10
    assert max(sizes) == full
    assert all(size % 32 == 0 for size in sizes if size != full)
    assert min(sizes) > 0
