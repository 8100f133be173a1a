# SPDX-License-Identifier: Apache-2.0
"""Batches hold what the tiles hold, whether made ahead of time or not."""

from __future__ import annotations

import pytest
import torch

from joulelab.workloads.yolo_batches import Tiles
from joulelab.workloads.yolo_loss import assign

SIDE = 64
CPU = torch.device("cpu")


def tiles() -> Tiles:
    """Five tiles; on the second and the fourth are boxes."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (5, 3, SIDE, SIDE), dtype=torch.uint8, generator=generator)
    boxes = torch.tensor(
        [
            [1, 0, 4, 8, 24, 38],
            [1, 2, 30, 30, 60, 50],
            [3, 1, 10, 10, 30, 30],
        ],
        dtype=torch.float32,
    )
    return Tiles(pixels, boxes, device=CPU)


def test_the_boxes_of_rows() -> None:
    found = tiles().objects(torch.tensor([3, 0, 1, 3]))
    assert found[:, :2].tolist() == [[0, 1], [2, 0], [2, 2], [3, 1]]
    assert found[1, 2:].tolist() == [4, 8, 24, 38]
    assert tiles().objects(torch.tensor([0, 4])).shape == (0, 6)


def test_plain_batches_are_the_tiles_and_their_boxes() -> None:
    made = tiles()
    order = [torch.tensor([1, 0]), torch.tensor([3])]
    ready = list(made.training(order, among=torch.arange(5), generator=torch.Generator(), mosaic=False))
    batches = [made.put(one, dtype=torch.float64) for one in ready]
    assert [len(batch.pictures) for batch in batches] == [2, 1]
    assert torch.equal(batches[0].pictures[0], made.pixels[1].double() / 255)
    about = torch.tensor([[0, 0, 14, 23, 20, 30], [0, 2, 45, 40, 30, 20]], dtype=torch.float32)
    for got, want in zip(batches[0].pairs, assign(about, image_size=SIDE), strict=True):
        assert torch.equal(got.box, want.box.double())
        assert torch.equal(got.column, want.column)
        assert torch.equal(got.kind, want.kind)
    assert torch.equal(made.pictures(torch.tensor([4]), dtype=torch.float32)[0], made.pixels[4] / 255)


def test_mosaics_come_from_the_seed() -> None:
    made = tiles()
    order = [torch.tensor([0, 1, 2, 3]), torch.tensor([4])]

    def batches(seed: int) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        ready = made.training(order, among=torch.arange(5), generator=generator, mosaic=True)
        return [made.put(one, dtype=torch.float32).pictures for one in ready]

    one, again, other = batches(1), batches(1), batches(2)
    assert [tuple(part.shape) for part in one] == [(4, 3, SIDE, SIDE), (1, 3, SIDE, SIDE)]
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    assert not torch.equal(one[0], other[0])


def test_every_mosaic_has_its_own_tile_and_others_of_the_same_part() -> None:
    made = tiles()
    made.pixels = torch.arange(5, dtype=torch.uint8)[:, None, None, None].expand(5, 3, SIDE, SIDE)
    ready = made._prepare(
        torch.tensor([0, 2] * 20), among=torch.tensor([1, 3]), generator=torch.Generator(), mosaic=True
    )
    own = ready.rows.view(-1, 4) == torch.tensor([0, 2] * 20)[:, None]
    assert own.sum(1).tolist() == [1] * 40
    assert set(ready.rows.tolist()) == {0, 1, 2, 3}
    first = own.int().argmax(1)
    assert set(first.tolist()) == {0, 1, 2, 3}, "in any of the four places"


def test_who_stops_early_leaves_no_thread() -> None:
    made = tiles()
    batches = made.training(
        [torch.tensor([0])] * 50, among=torch.arange(5), generator=torch.Generator(), mosaic=True
    )
    assert next(batches).rows.shape == (4,)
    del batches  # the fixture of every test counts threads


def test_an_error_in_the_thread_is_raised_where_the_batch_is_awaited() -> None:
    made = tiles()
    with pytest.raises(IndexError):
        list(
            made.training(
                [torch.tensor([9])], among=torch.arange(5), generator=torch.Generator(), mosaic=False
            )
        )
