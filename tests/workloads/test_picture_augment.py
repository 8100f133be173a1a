# SPDX-License-Identifier: Apache-2.0
"""Shift, mirror, hole, cut: on pictures whose every pixel says where it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from joulelab.workloads.picture_augment import MEAN, STD, Cropped, Normal, Shifted, alternately, middle

if TYPE_CHECKING:
    from collections.abc import Callable

CPU = torch.device("cpu")
SIDE = 8


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def places(count: int, side: int = SIDE) -> torch.Tensor:
    """Red says the row of a pixel, green its column, blue the picture."""
    pictures = torch.zeros(count, side, side, 3, dtype=torch.uint8)
    pictures[..., 0] = torch.arange(side, dtype=torch.uint8)[:, None]
    pictures[..., 1] = torch.arange(side, dtype=torch.uint8)
    pictures[..., 2] = torch.arange(count, dtype=torch.uint8)[:, None, None]
    return pictures


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bytes_become_numbers_around_nought(dtype: torch.dtype, channels_last: bool) -> None:  # noqa: FBT001
    pictures = torch.randint(0, 256, (2, 5, 4, 3), dtype=torch.uint8, generator=generator())
    found = Normal(device=CPU, dtype=dtype, channels_last=channels_last)(pictures)
    assert found.dtype == dtype
    assert found.shape == (2, 3, 5, 4)
    assert found.is_contiguous(memory_format=torch.channels_last) == channels_last
    assert found.is_contiguous() == (not channels_last)
    wanted = (pictures.double() / 255 - torch.tensor(MEAN)) / torch.tensor(STD)
    torch.testing.assert_close(found.double(), wanted.permute(0, 3, 1, 2), atol=1e-5, rtol=1e-5)


def reflected(place: int, side: int) -> int:
    """Counting back from the border."""
    return side - 1 - abs(side - 1 - abs(place))


def shift_of(row: list[int], side: int) -> list[tuple[int, bool]]:
    """By how much and whether mirrored, of all that explain a row of places."""
    found = []
    for by in range(-side // 8, side // 8 + 1):
        wanted = [reflected(k + by, side) for k in range(side)]
        found += [(by, mirrored) for mirrored in (False, True) if row == wanted[:: -1 if mirrored else 1]]
    return found


def test_a_shift_reflects_the_border_and_half_are_mirrored() -> None:
    count = 400
    draws = Shifted(count, size=16, hole=0, generator=generator())
    rows = torch.arange(count).flip(0)
    cut = draws.cut(places(256, 16), rows % 256, slice(0, count))
    assert cut.shape == (count, 16, 16, 3)
    seen = []
    for k in range(count):
        assert (cut[k, ..., 2] == int(rows[k]) % 256).all()
        (down,) = shift_of(cut[k, :, 0, 0].tolist(), 16)
        (right,) = shift_of(cut[k, 0, :, 1].tolist(), 16)
        assert not down[1], "upside down is never seen"
        assert (cut[k, ..., 0] == cut[k, :, :1, 0]).all()
        assert (cut[k, ..., 1] == cut[k, :1, :, 1]).all()
        seen.append((down[0], *right))
    assert {by for by, _, _ in seen} == {by for _, by, _ in seen} == {-2, -1, 0, 1, 2}
    assert 150 < sum(mirrored for _, _, mirrored in seen) < 250
    assert len(set(seen)) == 50, "each is drawn apart"


def test_who_is_mirrored_may_be_decided_before() -> None:
    mirrored = torch.tensor([True, False, False, True])
    draws = Shifted(4, size=SIDE, hole=0, generator=generator(), mirrored=mirrored)
    cut = draws.cut(places(4), torch.arange(4), slice(0, 4))
    # Three columns of the middle: whatever the shift is, they run one way or the other.
    ways = cut[:, 0, 3:6, 1].to(torch.int16).diff(dim=1)
    assert ways.tolist() == [[-1, -1], [1, 1], [1, 1], [-1, -1]]


def test_every_picture_is_mirrored_in_every_second_epoch() -> None:
    count, everyone = 1000, torch.arange(1000)
    first, second, third = (alternately(everyone, count=count, epoch=k, seed=5) for k in (1, 2, 3))
    assert torch.equal(second, ~first)
    assert torch.equal(third, first)
    assert 440 < int(first.sum()) < 560
    assert not torch.equal(alternately(everyone, count=count, epoch=1, seed=6), first)
    # By the picture and not by its place; an epoch may leave some out.
    order = torch.randperm(count, generator=generator())[:100]
    assert torch.equal(alternately(order, count=count, epoch=2, seed=5), second[order])


def test_a_batch_is_given_the_draws_of_its_place_in_the_epoch() -> None:
    draws = Shifted(30, size=SIDE, hole=2, generator=generator())
    pictures = places(30)
    order = torch.randperm(30, generator=generator(1))
    whole = draws.cut(pictures, order, slice(0, 30))
    parts = [draws.cut(pictures, order[k : k + 7], slice(k, k + 7)) for k in range(0, 30, 7)]
    assert torch.equal(torch.cat(parts), whole)
    ones = torch.ones(30, 3, SIDE, SIDE)
    holes = [draws.finish(ones[k : k + 7].clone(), slice(k, k + 7)) for k in range(0, 30, 7)]
    assert torch.equal(torch.cat(holes), draws.finish(ones.clone(), slice(0, 30)))


def test_a_hole_is_a_square_of_nought_about_any_pixel() -> None:
    count, side, hole = 600, 16, 4
    draws = Shifted(count, size=side, hole=hole, generator=generator())
    found = draws.finish(torch.ones(count, 3, side, side), slice(0, count))
    assert torch.equal(found[:, 0], found[:, 1])
    assert torch.equal(found[:, 0], found[:, 2])
    centres = set()
    for one in found[:, 0]:
        down, right = (torch.nonzero((one == 0).any(axis)).flatten().tolist() for axis in (1, 0))
        assert down == list(range(down[0], down[-1] + 1))
        assert right == list(range(right[0], right[-1] + 1))
        assert int((one == 0).sum()) == len(down) * len(right), "all of the square"
        assert {len(down), len(right)} <= {hole // 2 + 1, hole // 2 + 2, hole + 1}
        assert len(down) == hole + 1 or down[0] == 0 or down[-1] == side - 1, "cut off by the border alone"
        centres.add(tuple(s[-1] - hole // 2 if s[0] == 0 else s[0] + hole // 2 for s in (down, right)))
    assert {down for down, _ in centres} == {right for _, right in centres} == set(range(side))
    assert len(centres) > 10 * side, "drawn apart from top to bottom and from left to right"
    plain = Shifted(2, size=side, hole=0, generator=generator())
    assert plain.finish(torch.ones(2, 3, side, side), slice(0, 2)).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: Shifted(9, size=SIDE, hole=2, generator=generator(seed)),
        lambda seed: Cropped(9, size=SIDE, least=0.3, generator=generator(seed)),
    ],
)
def test_the_seed_decides_the_draws(make: Callable[[int], Shifted | Cropped]) -> None:
    pictures, rows, part = places(9), torch.arange(9), slice(0, 9)
    normal = Normal(device=CPU, dtype=torch.float32, channels_last=False)

    def seen(seed: int) -> torch.Tensor:
        draws = make(seed)
        return draws.finish(normal(draws.cut(pictures, rows, part)), part)

    assert torch.equal(seen(1), seen(1))
    assert not torch.equal(seen(1), seen(2))


def slopes(count: int, side: int) -> torch.Tensor:
    """Pictures, channels first: red is the place from left to right, green from top to bottom, -1 to 1."""
    at = (2 * torch.arange(side) + 1) / side - 1
    one = torch.stack([at.expand(side, side), at[:, None].expand(side, side), torch.zeros(side, side)])
    return one.expand(count, 3, side, side).contiguous()


def test_a_cut_is_a_part_of_the_picture_of_the_drawn_area_and_shape() -> None:
    count, side, size = 500, 64, 32
    draws = Cropped(count, size=size, least=0.35, generator=generator())
    cut = draws.finish(slopes(count, side), slice(0, count))
    assert cut.shape == (count, 3, size, size)
    # Between the outermost centres of pixels lies all of the cut but one pixel.
    wide = (cut[:, 0, 0, -1] - cut[:, 0, 0, 0]) / 2 * size / (size - 1)
    high = (cut[:, 1, -1, 0] - cut[:, 1, 0, 0]) / 2 * size / (size - 1)
    assert (high > 0).all(), "upside down is never seen"
    mirrored = wide < 0
    assert 200 < int(mirrored.sum()) < 300
    assert cut[:, :2].abs().max() < 1.0, "nothing from beyond the picture"
    area, ratio = wide.abs() * high, wide.abs() / high
    assert area.max() > 0.9
    assert 0.3 < float(area.min()) < 0.42
    inside = (wide.abs() < 0.99) & (high < 0.99)
    assert 0.7 < float(ratio[inside].min()) < 0.8
    assert 1.25 < float(ratio[inside].max()) < 1.4
    # Anywhere in the picture: where there is room, at the left as often as at the right.
    left = cut[:, 0].mean((1, 2))
    assert abs(float(left.mean())) < 0.05
    assert float(left[inside].std()) > 0.05
    # Each row of a cut runs evenly from one end to the other.
    steps = cut[:, 0, 0].diff(dim=1)
    assert float((steps - steps[:, :1]).abs().max()) < 0.02


def test_the_whole_picture_is_cut_where_nothing_less_may_be() -> None:
    draws = Cropped(50, size=16, least=1.0, generator=generator())
    draws._theta[:, 0, 0] = draws._theta[:, 0, 0].sign()
    draws._theta[:, 1, 1], draws._theta[:, :, 2] = 1.0, 0.0
    pictures = torch.rand(50, 3, 16, 16, generator=generator(1))
    found = draws.finish(pictures.clone(), slice(0, 50))
    mirrored = draws._theta[:, 0, 0] < 0
    assert 0 < int(mirrored.sum()) < 50
    torch.testing.assert_close(found[~mirrored], pictures[~mirrored], atol=1e-4, rtol=0)
    torch.testing.assert_close(found[mirrored], pictures[mirrored].flip(3), atol=1e-4, rtol=0)


@pytest.mark.parametrize("order", [torch.channels_last, torch.contiguous_format])
def test_a_cut_keeps_the_order_in_memory_and_the_format(order: torch.memory_format) -> None:
    draws = Cropped(2, size=16, least=0.3, generator=generator())
    batch = slopes(2, 32).double().contiguous(memory_format=order)
    found = draws.finish(batch, slice(0, 2))
    assert found.is_contiguous(memory_format=order)
    assert found.dtype == torch.float64
    assert torch.equal(draws.cut(places(4), torch.tensor([3, 1]), slice(0, 2)), places(4)[[3, 1]])


def test_the_middle() -> None:
    found = middle(places(3, 10), 6)
    assert found.shape == (3, 6, 6, 3)
    assert found[0, :, 0, 0].tolist() == found[0, 0, :, 1].tolist() == [2, 3, 4, 5, 6, 7]
    assert torch.equal(middle(places(3), SIDE), places(3))
