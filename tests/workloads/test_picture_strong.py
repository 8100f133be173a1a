# SPDX-License-Identifier: Apache-2.0
"""Each of the ten changes alone, by an amount whose result can be worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from joulelab.workloads import picture_strong
from joulelab.workloads.picture_strong import Strong

SIDE = 4


def drawn(monkeypatch: pytest.MonkeyPatch, *, change: int, by: float) -> Strong:
    """One picture, of which change and amount are not left to chance."""
    with monkeypatch.context() as patched:
        patched.setattr(torch, "randint", lambda *given, **named: torch.tensor([change]))
        patched.setattr(torch, "rand", lambda *given, **named: torch.tensor([(by + 1) / 2]))
        return Strong(1, generator=torch.Generator())


def by_row_and_column() -> torch.Tensor:
    """1 to 16, the first row first."""
    return torch.arange(1.0, 17.0).view(1, 1, SIDE, SIDE).expand(1, 3, SIDE, SIDE).contiguous()


def placed(made: Strong) -> list[list[float]]:
    out = made.place(by_row_and_column(), slice(0, 1))
    assert torch.equal(out[:, 0], out[:, 2]), "all colours alike"
    return out[0, 0].round(decimals=4).tolist()


ROWS = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]
COLOURS = range(picture_strong.BRIGHTNESS, picture_strong.SATURATION + 1)


@pytest.mark.parametrize("change", [0, *COLOURS])
def test_places_stay_where_colours_or_nothing_change(monkeypatch: pytest.MonkeyPatch, change: int) -> None:
    assert placed(drawn(monkeypatch, change=change, by=1.0)) == ROWS


def test_a_shift_brings_grey_in_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    # 0.3 of the side is the most; 0.25 of it is one pixel of four.
    one = 0.25 / 0.3
    right = placed(drawn(monkeypatch, change=picture_strong.SHIFT_X, by=one))
    assert right == [[2, 3, 4, 0], [6, 7, 8, 0], [10, 11, 12, 0], [14, 15, 16, 0]]
    up = placed(drawn(monkeypatch, change=picture_strong.SHIFT_Y, by=-one))
    assert up == [[0, 0, 0, 0], *ROWS[:3]]


def test_a_turn_by_the_angle_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_strong, "ANGLE", math.pi / 2)
    turned = placed(drawn(monkeypatch, change=picture_strong.TURN, by=1.0))
    assert turned == [list(row) for row in zip(*ROWS, strict=True)][::-1]
    back = placed(drawn(monkeypatch, change=picture_strong.TURN, by=-1.0))
    assert back == [list(row) for row in zip(*ROWS[::-1], strict=True)]


def test_a_shear_moves_rows_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    # Rows lie at -3/4, -1/4, 1/4, 3/4 and a pixel is 1/2 wide: a shear of 2 moves them by 3, 1, 1, 3 pixels.
    monkeypatch.setattr(picture_strong, "SHEAR", 2.0)
    sheared = placed(drawn(monkeypatch, change=picture_strong.SHEAR_X, by=1.0))
    assert sheared == [[0, 0, 0, 1], [0, 5, 6, 7], [10, 11, 12, 0], [16, 0, 0, 0]]
    down = placed(drawn(monkeypatch, change=picture_strong.SHEAR_Y, by=1.0))
    columns = [[0, 0, 0, 1], [0, 2, 6, 10], [7, 11, 15, 0], [16, 0, 0, 0]]
    assert down == [list(row) for row in zip(*columns, strict=True)]


def test_a_zoom_of_two_sees_the_middle_or_twice_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_strong, "SCALE", math.log(2))
    near = placed(drawn(monkeypatch, change=picture_strong.ZOOM, by=-1.0))
    # The middle two by two pixels, in steps of half a pixel: 6 to 11.
    assert near[0] == [4.75, 5.25, 5.75, 6.25]
    assert near[3] == [10.75, 11.25, 11.75, 12.25]
    far = placed(drawn(monkeypatch, change=picture_strong.ZOOM, by=1.0))
    assert far == [[0, 0, 0, 0], [0, 3.5, 5.5, 0], [0, 11.5, 13.5, 0], [0, 0, 0, 0]]


def coloured(made: Strong, first: list[int], second: list[int]) -> list[list[float]]:
    """What becomes of a picture of two pixels, above each other."""
    pictures = torch.tensor([first, second], dtype=torch.uint8).view(1, 2, 1, 3)
    out = made.colour(pictures, slice(0, 1))
    assert out.dtype == torch.float32
    return [[round(value, 3) for value in pixel] for pixel in out[0, :, 0].tolist()]


def test_colours_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(change: int, by: float) -> list[list[float]]:
        return coloured(drawn(monkeypatch, change=change, by=by), [100, 0, 200], [10, 250, 30])

    # Greys are 29.9 + 22.8 = 52.7 and 2.99 + 146.75 + 3.42 = 153.16, their mean 102.93.
    assert of(picture_strong.BRIGHTNESS, -1.0) == [[10, 0, 20], [1, 25, 3]]
    assert of(picture_strong.BRIGHTNESS, 1.0) == [[190, 0, 255], [19, 255, 57]]
    assert of(picture_strong.CONTRAST, -1.0) == [[102.637, 92.637, 112.637], [93.637, 117.637, 95.637]]
    assert of(picture_strong.CONTRAST, 1.0)[0] == [97.363, 0, 255]
    assert of(picture_strong.SATURATION, -1.0) == [[57.43, 47.43, 67.43], [138.844, 162.844, 140.844]]
    assert of(picture_strong.SATURATION, 1.0) == [[142.57, 0, 255], [0, 255, 0]]
    for change in (0, picture_strong.TURN, picture_strong.ZOOM):
        assert of(change, 1.0) == [[100, 0, 200], [10, 250, 30]], "to the bit"


def test_each_change_is_as_likely_and_each_picture_has_one() -> None:
    count = 5000
    made = Strong(count, generator=torch.Generator().manual_seed(0))
    still = torch.eye(2, 3).expand(count, 2, 3)
    moved = (made._theta != still).any(2).any(1)
    tinted = made._factor.flatten() != 1.0
    assert not (moved & tinted).any()
    assert 0.57 < float(moved.float().mean()) < 0.63, "six of ten"
    assert 0.27 < float(tinted.float().mean()) < 0.33, "three of ten"
    assert 0.1 < float(made._factor.min()) < 0.12
    assert 1.88 < float(made._factor.max()) < 1.9
    shift = made._theta[:, 0, 2].abs()
    assert 0.58 < float(shift.max()) < 0.6
    assert 0.09 < float((shift > 0).float().mean()) < 0.11


@pytest.mark.parametrize("order", [torch.channels_last, torch.contiguous_format])
def test_draws_are_of_the_place_and_the_seed_and_the_order_is_kept(order: torch.memory_format) -> None:
    count = 20
    pictures = torch.randint(0, 256, (count, 8, 8, 3), dtype=torch.uint8)

    def seen(part: slice, seed: int = 0) -> torch.Tensor:
        made = Strong(count, generator=torch.Generator().manual_seed(seed))
        tinted = made.colour(pictures[part], part).permute(0, 3, 1, 2).double()
        out = made.place(tinted.contiguous(memory_format=order), part)
        assert out.is_contiguous(memory_format=order)
        assert out.dtype == torch.float64
        return out

    whole = seen(slice(0, count))
    parts = [seen(slice(k, min(k + 7, count))) for k in range(0, count, 7)]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=1e-12)
    assert not torch.allclose(whole, seen(slice(0, count), seed=1))
