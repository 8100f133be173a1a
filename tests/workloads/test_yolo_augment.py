# SPDX-License-Identifier: Apache-2.0
"""Boxes go where their pixels go; colours change as the standard library's formula says."""

from __future__ import annotations

import colorsys
from dataclasses import replace

import pytest
import torch

from joulelab.workloads import yolo_augment
from joulelab.workloads.yolo_augment import GREY, Draw, boxes, draw, pixels

SIDE = 48


def plain(count: int, **changed: torch.Tensor) -> Draw:
    """Nothing by chance: the middle of the four tiles, at their own scale and in their own colours."""
    drawn = Draw(
        centre=torch.ones(count, 2),
        zoom=torch.ones(count),
        shift=torch.full((count, 2), 0.5),
        mirror=torch.zeros(count, dtype=torch.bool),
        colour=torch.ones(count, 3),
    )
    return replace(drawn, **changed)


def noise(count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, 4, 3, SIDE, SIDE), dtype=torch.uint8, generator=generator)


def side_by_side(tiles: torch.Tensor) -> torch.Tensor:
    upper, lower = (torch.cat((tiles[:, k], tiles[:, k + 1]), 3) for k in (0, 2))
    return torch.cat((upper, lower), 2).float() / 255


def test_without_chance_it_is_the_middle_of_four_tiles() -> None:
    tiles = noise(2)
    half = SIDE // 2
    want = side_by_side(tiles)[:, :, half : half + SIDE, half : half + SIDE]
    torch.testing.assert_close(pixels(tiles, plain(2), dtype=torch.float32), want, atol=1e-4, rtol=0)


def test_mirrored() -> None:
    tiles = noise(1)
    there = pixels(tiles, plain(1), dtype=torch.float32)
    back = pixels(tiles, plain(1, mirror=torch.tensor([True])), dtype=torch.float32)
    torch.testing.assert_close(back, there.flip(3), atol=1e-4, rtol=0)


def test_what_is_off_the_canvas_is_grey() -> None:
    # The tiles meet at half a side from the corner: the canvas' last half holds nothing.
    tiles = noise(1)
    drawn = plain(1, centre=torch.full((1, 2), 0.5), zoom=torch.tensor([0.5]))
    found = pixels(tiles, drawn, dtype=torch.float32)
    edge = SIDE * 3 // 4
    torch.testing.assert_close(found[:, :, edge + 1 :], torch.full_like(found[:, :, edge + 1 :], GREY))
    assert (found[:, :, : edge - 1, : edge - 1] != GREY).float().mean() > 0.9


def test_boxes_go_where_their_pixels_go() -> None:
    generator = torch.Generator().manual_seed(3)
    count = 40
    tiles = torch.zeros(count, 4, 3, SIDE, SIDE, dtype=torch.uint8)
    rows = []
    for picture in range(count):
        tile = picture % 4
        x, y = torch.randint(2, SIDE - 22, (2,), generator=generator).tolist()
        w, h = torch.randint(10, 20, (2,), generator=generator).tolist()
        tiles[picture, tile, :, y : y + h, x : x + w] = 255
        x, y = x + SIDE * (tile % 2), y + SIDE * (tile // 2)
        rows.append([picture, 7, x, y, x + w, y + h])
    drawn = replace(draw(count, generator), colour=torch.ones(count, 3))
    found = {int(row[0]): row[2:] for row in boxes(torch.tensor(rows, dtype=torch.float32), drawn, side=SIDE)}
    assert 5 < len(found) < count, "some are shown, some are cut away"
    seen = pixels(tiles, drawn, dtype=torch.float32)[:, 0] > (1 + GREY) / 2
    for picture in range(count):
        y, x = seen[picture].nonzero(as_tuple=True)
        if picture not in found:
            assert len(x) < 40, "only what is small or mostly cut off is let go"
            continue
        cx, cy, w, h = found[picture].tolist()
        ends = [cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2]
        shown = [int(x.min()), int(y.min()), int(x.max()) + 1, int(y.max()) + 1]
        assert shown == pytest.approx(ends, abs=1.5)


@pytest.mark.parametrize(
    ("box", "zoom", "kept"),
    [
        ((40, 40, 60, 60), 1.0, True),
        ((40, 40, 42, 60), 1.0, False),  # 2 px wide is not more than 2
        ((40, 40, 44, 60), 0.5, False),
        ((0, 40, 30, 60), 1.0, True),  # six of thirty columns are shown
        ((0, 40, 26, 60), 1.0, False),  # two of 26
        ((0, 30, 27, 60), 1.0, True),  # three of 27 are more than a tenth
    ],
)
def test_what_is_left_too_small_goes(box: tuple[int, ...], zoom: float, kept: bool) -> None:  # noqa: FBT001
    given = torch.tensor([[0, 1, *box]], dtype=torch.float32)
    assert len(boxes(given, plain(1, zoom=torch.tensor([zoom])), side=SIDE)) == kept


def test_colours_as_the_standard_library_has_them() -> None:
    generator = torch.Generator().manual_seed(0)
    given = torch.rand(4, 3, 3, 5, generator=generator)
    given[0, :, 0, 0] = 0.0  # black has no hue
    given[0, :, 0, 1] = 0.5
    factors = torch.tensor([[1.0, 1, 1], [1.01, 0.4, 1.3], [0.99, 1.7, 0.6], [1.0, 1.5, 1.4]])
    found = yolo_augment._recoloured(given, factors)
    for k, (by_h, by_s, by_v) in enumerate(factors.tolist()):
        for at in [(row, column) for row in range(3) for column in range(5)]:
            h, s, v = colorsys.rgb_to_hsv(*given[k, :, at[0], at[1]].tolist())
            want = colorsys.hsv_to_rgb(h * by_h % 1, min(1, s * by_s), min(1, v * by_v))
            assert found[k, :, at[0], at[1]].tolist() == pytest.approx(want, abs=1e-5)


def test_chances_are_in_their_ranges_and_of_the_seed() -> None:
    one, again = (draw(4000, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(one.centre, again.centre)
    for name, low, high in (("centre", 0.5, 1.5), ("zoom", 0.5, 1.5), ("shift", 0.4, 0.6)):
        values = getattr(one, name)
        assert low <= values.min() < low + 0.01
        assert high - 0.01 < values.max() <= high
    assert one.mirror.float().mean() == pytest.approx(0.5, abs=0.05)
    assert one.colour.amax(0).tolist() == pytest.approx([1.015, 1.7, 1.4], rel=0.01)
    assert one.colour.amin(0).tolist() == pytest.approx([0.985, 0.3, 0.6], rel=0.02)


def test_pieces_make_the_same_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    tiles, drawn = noise(5), draw(5, torch.Generator().manual_seed(2))
    whole = pixels(tiles, drawn, dtype=torch.float32)
    monkeypatch.setattr(yolo_augment, "CHUNK", 2)
    torch.testing.assert_close(pixels(tiles, drawn, dtype=torch.float32), whole)
    assert pixels(tiles, drawn, dtype=torch.float64).dtype == torch.float64
