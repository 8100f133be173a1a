# SPDX-License-Identifier: Apache-2.0
"""Overlaps against hand-worked and independent figures, suppression against the plain way to do it."""

from __future__ import annotations

import math

import pytest
import torch

from joulelab.workloads.yolo_boxes import CONFIDENCE, KEPT, complete_iou, corners, decode, iou, suppress
from joulelab.workloads.yolo_network import ANCHORS, STRIDES


def row(*numbers: float) -> torch.Tensor:
    return torch.tensor([numbers], dtype=torch.float64)


def plain_iou(a: list[float], b: list[float]) -> float:
    shared = 1.0
    for low, high in ((0, 2), (1, 3)):
        shared *= max(0.0, min(a[high], b[high]) - max(a[low], b[low]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return shared / (sum(areas) - shared)


def plain_complete_iou(a: list[float], b: list[float], *, weight: float | None = None) -> float:
    """By the published formula, a number at a time."""
    ends = [[x - w / 2, y - h / 2, x + w / 2, y + h / 2] for x, y, w, h in (a, b)]
    overlap = plain_iou(*ends)
    around = [max(ends[0][k + 2], ends[1][k + 2]) - min(ends[0][k], ends[1][k]) for k in (0, 1)]
    apart = ((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) / (around[0] ** 2 + around[1] ** 2)
    shape = 4 / math.pi**2 * (math.atan(b[2] / b[3]) - math.atan(a[2] / a[3])) ** 2
    if weight is None:
        weight = shape / (1 - overlap + shape) if shape else 0.0
    return overlap - apart - weight * shape


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        ((5, 5, 2, 4), (5, 5, 2, 4), 1.0),
        # Two of six unit squares are shared; centres 1 apart in a frame of 3 x 2.
        ((1, 1, 2, 2), (2, 1, 2, 2), 1 / 3 - 1 / 13),
        # Nothing is shared: centres 4 apart in a frame of 6 x 2.
        ((1, 1, 2, 2), (5, 1, 2, 2), -16 / 40),
        # A cross: v = 4 / pi^2 (atan 2 - atan 0.5)^2 = 0.167826, weight 0.201111.
        ((0, 0, 2, 4), (0, 0, 4, 2), 1 / 3 - 0.201111 * 0.167826),
    ],
)
def test_complete_iou_by_hand(a: tuple[float, ...], b: tuple[float, ...], want: float) -> None:
    assert float(complete_iou(row(*a), row(*b))) == pytest.approx(want, abs=2e-6)
    assert plain_complete_iou(list(a), list(b)) == pytest.approx(want, abs=2e-6)


def test_complete_iou_against_the_formula() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = (
        torch.rand(200, 4, generator=generator, dtype=torch.float64) * torch.tensor([6, 6, 5, 5])
        + torch.tensor([0, 0, 0.2, 0.2])
        for _ in range(2)
    )
    want = [plain_complete_iou(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert complete_iou(a, b).tolist() == pytest.approx(want, abs=1e-5)


def test_the_weight_of_the_shape_is_a_constant_to_gradients() -> None:
    a, b = [1.0, 2.0, 3.0, 1.5], [1.4, 1.8, 1.2, 2.0]
    given = row(*a).requires_grad_()
    complete_iou(given, row(*b)).sum().backward()  # type: ignore[no-untyped-call]
    assert given.grad is not None
    shape = 4 / math.pi**2 * (math.atan(b[2] / b[3]) - math.atan(a[2] / a[3])) ** 2
    ends = [[x - w / 2, y - h / 2, x + w / 2, y + h / 2] for x, y, w, h in (a, b)]
    weight = shape / (1 - plain_iou(*ends) + shape)
    for k in range(4):
        up, down = ([*a[:k], a[k] + step, *a[k + 1 :]] for step in (1e-6, -1e-6))
        slope = plain_complete_iou(up, b, weight=weight) - plain_complete_iou(down, b, weight=weight)
        assert float(given.grad[0, k]) == pytest.approx(slope / 2e-6, rel=1e-3)


def test_iou_of_boxes_that_touch_or_are_nothing() -> None:
    boxes = torch.tensor([[0.0, 0, 2, 2], [2, 0, 4, 2], [1, 1, 1, 1], [0, 0, 2, 2]])
    assert iou(boxes[:1], boxes).tolist() == pytest.approx([1, 0, 0, 1])


def test_zeros_decode_to_the_middle_of_the_cell_and_to_the_shape() -> None:
    outputs = [torch.zeros(1, 3, 64 // stride, 96 // stride, 5 + 2) for stride in STRIDES]
    boxes = decode(outputs)
    assert boxes.shape == (1, 3 * (8 * 12 + 4 * 6 + 2 * 3), 7)
    # The second shape of the first scale, row 3, column 5.
    at = 8 * 12 + 3 * 12 + 5
    assert boxes[0, at].tolist() == pytest.approx([5.5 * 8, 3.5 * 8, *ANCHORS[0][1], 0.5, 0.5, 0.5])
    assert boxes[0, -1, :4].tolist() == pytest.approx([2.5 * 32, 1.5 * 32, *ANCHORS[2][2]])


def test_a_box_reaches_half_a_cell_further_and_four_times_its_shape() -> None:
    outputs = [torch.zeros(1, 3, 64 // stride, 64 // stride, 6) for stride in STRIDES]
    outputs[1][0, 2, 1, 3, :4] = torch.tensor([40.0, -40, 40, -40])
    box = decode(outputs)[0, 3 * 64 + 2 * 16 + 1 * 4 + 3]
    assert box[:4].tolist() == pytest.approx([(3 + 1.5) * 16, (1 - 0.5) * 16, 4 * ANCHORS[1][2][0], 0])


def plain(decoded: list[list[float]], *, overlap: float, kept: int) -> list[tuple[float, int, int]]:
    """Non-maximum suppression as it is told: score, class and number of the boxes kept."""
    rows = []
    for number, (*_, objectness, first, second, third) in enumerate(decoded):
        for kind, share in enumerate((first, second, third)):
            score = objectness * share
            if objectness > CONFIDENCE and score > CONFIDENCE:
                rows.append((score, kind, number))
    rows.sort(reverse=True)
    found: list[tuple[float, int, int]] = []
    ends = corners(torch.tensor(decoded)[:, :4]).tolist()
    for score, kind, number in rows:
        if len(found) == kept:
            break
        if all(of != kind or plain_iou(ends[number], ends[other]) <= overlap for _, of, other in found):
            found.append((score, kind, number))
    return found


@pytest.mark.parametrize("kept", [5, 40, KEPT])
def test_suppression_against_the_plain_way(kept: int) -> None:
    generator = torch.Generator().manual_seed(kept)
    places = torch.rand(3, 120, 4, generator=generator) * torch.tensor([60, 60, 30, 30]) + torch.tensor(
        [0, 0, 8.0, 8]
    )
    scores = torch.rand(3, 120, 4, generator=generator) ** 3
    scores[:, ::7, 0] = CONFIDENCE / 2
    scores[2, :, 0] = 0.0  # nothing in the last picture
    decoded = torch.cat((places, scores), 2)
    found = suppress(decoded, overlap=0.4, kept=kept)
    for k in range(3):
        want = plain(decoded[k].tolist(), overlap=0.4, kept=kept)
        count = int(found.counts[k])
        assert count == len(want)
        assert found.scores[k, :count].tolist() == pytest.approx([score for score, _, _ in want])
        assert found.classes[k, :count].tolist() == [kind for _, kind, _ in want]
        boxes = corners(places[k])[[number for _, _, number in want]]
        torch.testing.assert_close(found.boxes[k, :count], boxes)
    assert int(found.counts[0]) == min(kept, int(found.counts[0]))
    assert int(found.counts[2]) == 0


def test_a_box_counts_for_every_class_and_only_its_own_is_suppressed() -> None:
    decoded = torch.tensor(
        [[[10, 10, 8, 8, 1.0, 0.9, 0.8], [10.5, 10, 8, 8, 1.0, 0.7, 0.85], [50, 50, 8, 8, 0.0005, 1, 1]]]
    )
    found = suppress(decoded)
    assert found.counts.tolist() == [2]
    assert found.scores[0, :2].tolist() == pytest.approx([0.9, 0.85])
    assert found.classes[0, :2].tolist() == [0, 1]


def test_of_many_candidates_the_most_confident_are_compared() -> None:
    decoded = torch.zeros(1, 50, 6)
    decoded[0, :, 0] = torch.arange(50) * 20.0
    decoded[0, :, 2:4] = 8
    decoded[0, :, 4] = torch.linspace(0.1, 0.9, 50)
    decoded[0, :, 5] = 1
    assert suppress(decoded, candidates=10).scores[0, :11].tolist() == pytest.approx(
        [*torch.linspace(0.1, 0.9, 50).flip(0)[:10].tolist(), 0]
    )
