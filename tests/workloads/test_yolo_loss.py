# SPDX-License-Identifier: Apache-2.0
"""Cases of the assignment worked out by hand, and the loss a number at a time."""

from __future__ import annotations

import math

import pytest
import torch

from joulelab.workloads.yolo_loss import Pairs, assign, loss
from joulelab.workloads.yolo_network import ANCHORS, STRIDES
from tests.workloads.test_yolo_boxes import plain_complete_iou


def cells(pairs: Pairs) -> set[tuple[int, int, int]]:
    """Shape, column, row."""
    return set(zip(pairs.shape.tolist(), pairs.column.tolist(), pairs.row.tolist(), strict=True))


def objects(*rows: tuple[float, ...]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float32).reshape(-1, 6)


def test_shapes_and_cells_of_one_object() -> None:
    # 20 x 20 px at 98, 103. Stride 8: 12.25, 12.875: the left and the lower neighbour; each shape is near
    # enough. Stride 16: 6.125, 6.4375: left and upper; 59 x 119 is 5.95 times as high. Stride 32: none.
    near, middle, far = assign(objects((1, 5, 98, 103, 20, 20)), image_size=640)
    assert cells(near) == {(shape, *cell) for shape in range(3) for cell in ((12, 12), (11, 12), (12, 13))}
    assert cells(middle) == {(shape, *cell) for shape in range(2) for cell in ((6, 6), (5, 6), (6, 5))}
    assert len(far.picture) == 0
    assert set(near.picture.tolist()) == {1}
    assert set(near.kind.tolist()) == {5}
    left = next(k for k in range(9) if near.column[k] == 11 and near.shape[k] == 1)
    assert near.box[left].tolist() == pytest.approx([1.25, 0.875, 2.5, 2.5])
    assert near.anchor[left].tolist() == pytest.approx([2.0, 3.75])
    below = next(k for k in range(9) if near.row[k] == 13)
    assert near.box[below, :2].tolist() == pytest.approx([0.25, -0.125])


@pytest.mark.parametrize(
    ("x", "y", "want"),
    [
        (2, 2, {(0, 0)}),  # at the first cell there is no neighbour before
        (638, 2, {(79, 0)}),  # nor behind the last
        (10, 4, {(1, 0), (0, 0)}),  # 1.25: left; 0.5 is in neither half
        (12, 12, {(1, 1)}),
        (640, 4, {(79, 0)}),  # on the edge it is taken into the last cell
        (8, 4, {(1, 0)}),  # exactly one cell from the edge is not more than one
    ],
)
def test_cells_at_the_edges(x: float, y: float, want: set[tuple[int, int]]) -> None:
    near = assign(objects((0, 0, x, y, 20, 20)), image_size=640)[0]
    assert {(column, row) for _, column, row in cells(near)} == want
    assert ((near.box[:, :2] >= -0.5) & (near.box[:, :2] <= 1.5)).all()


@pytest.mark.parametrize(
    ("width", "height", "shapes"),
    [
        (10, 13, [3, 0, 0]),  # 30 x 61 is 4.7 times as high
        (39.9, 13, [3, 1, 0]),  # 3.99 times 10; 30 x 61 is 4.7 times as high; 62 x 45 3.46
        (40.1, 13, [2, 1, 0]),
        (116, 90, [1, 3, 3]),  # 33 x 23: 3.5 and 3.9; 373 x 326: 3.2 and 3.6
        (2, 2, [0, 0, 0]),
        (640, 640, [0, 0, 1]),  # 156 x 198 is too small by 4.1
    ],
)
def test_a_shape_answers_within_four_times(width: float, height: float, shapes: list[int]) -> None:
    found = assign(objects((0, 0, 324, 324, width, height)), image_size=640)
    want = [
        {
            shape
            for shape, (w, h) in enumerate(ANCHORS[scale])
            if max(width / w, w / width, height / h, h / height) < 4
        }
        for scale in range(3)
    ]
    assert [len(of) for of in want] == shapes
    assert [set(pairs.shape.tolist()) for pairs in found] == want


def test_without_objects_there_are_no_pairs() -> None:
    assert [len(pairs.kind) for pairs in assign(objects(), image_size=64)] == [0, 0, 0]


def entropy(logit: float, target: float) -> float:
    share = 1 / (1 + math.exp(-logit))
    return -target * math.log(share) - (1 - target) * math.log(1 - share)


def plain_loss(outputs: list[torch.Tensor], told: torch.Tensor, *, image_size: int) -> list[float]:
    """Box, objectness and class terms, one number after the other."""
    classes = outputs[0].shape[-1] - 5
    box = objectness = kind = 0.0
    for scale, pairs in enumerate(assign(told, image_size=image_size)):
        out = outputs[scale].tolist()
        wanted: dict[tuple[int, ...], float] = {}
        boxes, kinds = [], []
        for k in range(len(pairs.kind)):
            at = tuple(int(part[k]) for part in (pairs.picture, pairs.shape, pairs.row, pairs.column))
            said = out[at[0]][at[1]][at[2]][at[3]]
            x, y, w, h = (1 / (1 + math.exp(-value)) for value in said[:4])
            aw, ah = (side / STRIDES[scale] for side in ANCHORS[scale][at[1]])
            given = [2 * x - 0.5, 2 * y - 0.5, (2 * w) ** 2 * aw, (2 * h) ** 2 * ah]
            overlap = plain_complete_iou(given, pairs.box[k].tolist())
            boxes.append(1 - overlap)
            wanted[at] = max(wanted.get(at, 0.0), overlap, 0.0)
            kinds += [entropy(value, float(c == int(pairs.kind[k]))) for c, value in enumerate(said[5:])]
        every = [
            entropy(out[p][s][r][c][4], wanted.get((p, s, r, c), 0.0))
            for p in range(len(out))
            for s in range(3)
            for r in range(len(out[0][0]))
            for c in range(len(out[0][0][0]))
        ]
        objectness += (4.0, 1.0, 0.4)[scale] * sum(every) / len(every)
        if boxes:
            box += sum(boxes) / len(boxes)
            kind += sum(kinds) / len(kinds)
    return [0.05 * box, (image_size / 640) ** 2 * objectness, 0.5 * classes / 80 * kind]


def random_outputs(pictures: int, *, side: int, classes: int, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(pictures, 3, side // stride, side // stride, 5 + classes, generator=generator)
        for stride in STRIDES
    ]


TOLD = objects((0, 2, 30, 41, 20, 30), (0, 0, 31, 40, 24, 26), (2, 1, 70, 12, 14, 9), (2, 1, 50, 50, 90, 80))


def test_the_loss_a_number_at_a_time() -> None:
    outputs = random_outputs(3, side=96, classes=3)
    found = loss(outputs, assign(TOLD, image_size=96), image_size=96)
    want = plain_loss(outputs, TOLD, image_size=96)
    assert [float(found.box), float(found.objectness), float(found.kind)] == pytest.approx(want, rel=1e-4)
    assert float(found.total) == pytest.approx(3 * sum(want), rel=1e-4), "times the pictures of the batch"


def test_nothing_to_find_costs_objectness_alone() -> None:
    outputs = [torch.zeros(2, 3, 96 // stride, 96 // stride, 8) for stride in STRIDES]
    found = loss(outputs, assign(objects(), image_size=96), image_size=96)
    assert float(found.box) == float(found.kind) == 0
    assert float(found.objectness) == pytest.approx(5.4 * math.log(2) * (96 / 640) ** 2)
    assert float(found.total) == pytest.approx(2 * float(found.objectness))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_loss_of_other_formats(dtype: torch.dtype) -> None:
    outputs = [out.to(dtype).requires_grad_() for out in random_outputs(3, side=96, classes=3)]
    pairs = [of.to(torch.device("cpu"), torch.float64) for of in assign(TOLD, image_size=96)]
    found = loss(outputs, pairs, image_size=96)
    rounded = [out.detach().double() for out in outputs]
    want = plain_loss(rounded, TOLD, image_size=96)
    assert float(found.total.detach()) == pytest.approx(3 * sum(want), rel=1e-4), (
        "it is computed in fp32 at least"
    )
    found.total.backward()  # type: ignore[no-untyped-call]
    assert all(out.grad is not None and out.grad.isfinite().all() for out in outputs)


def test_a_perfect_answer_costs_almost_nothing() -> None:
    told = objects((0, 1, 36, 36, 20, 30))
    pairs = assign(told, image_size=96)
    outputs = [torch.full((1, 3, 96 // s, 96 // s, 7), -20.0) for s in STRIDES]
    for raw, of in zip(outputs, pairs, strict=True):
        at = of.picture, of.shape, of.row, of.column
        share = torch.cat(((of.box[:, :2] + 0.5) / 2, (of.box[:, 2:] / of.anchor).sqrt() / 2), 1)
        sure = torch.tensor([20.0, -20, 20]).expand(len(share), 3)
        raw[at] = torch.cat((share.logit(), sure), 1)
    assert float(loss(outputs, pairs, image_size=96).total) == pytest.approx(0, abs=1e-4)
