# SPDX-License-Identifier: Apache-2.0
"""Boxes: how alike two are, what the network's figures mean in pixels, and which of many to keep."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from joulelab.workloads.yolo_network import ANCHORS, STRIDES

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT = 300  # detections of a picture at most
CANDIDATES = 30_000  # that are compared with each other
CONFIDENCE = 0.001
OVERLAP = 0.6  # from which the less confident of two boxes of one class goes


@dataclass(frozen=True, kw_only=True)
class Detections:
    """The boxes kept in each picture, the most confident first; rows beyond `counts` mean nothing."""

    boxes: torch.Tensor  # pictures x rows x (x1, y1, x2, y2)
    scores: torch.Tensor
    classes: torch.Tensor
    counts: torch.Tensor


def iou(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Shared area over joint area, of corners x1, y1, x2, y2; leading dimensions broadcast."""
    low = torch.maximum(a[..., :2], b[..., :2])
    high = torch.minimum(a[..., 2:], b[..., 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    area_a = (a[..., 2:] - a[..., :2]).prod(-1)
    area_b = (b[..., 2:] - b[..., :2]).prod(-1)
    return shared / (area_a + area_b - shared + 1e-7)


def complete_iou(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """IoU less the distance of the centres and less the difference in shape; rows of x, y, w, h (CIoU).

    The weight of the shape's term is taken as a constant when gradients are made.
    """
    eps = 1e-7
    corners_a, corners_b = corners(a), corners(b)
    overlap = iou(corners_a, corners_b)
    around = torch.maximum(corners_a[..., 2:], corners_b[..., 2:]) - torch.minimum(
        corners_a[..., :2], corners_b[..., :2]
    )
    diagonal = around.square().sum(-1) + eps
    apart = (a[..., :2] - b[..., :2]).square().sum(-1)
    turn = torch.atan(b[..., 2] / (b[..., 3] + eps)) - torch.atan(a[..., 2] / (a[..., 3] + eps))
    shape = 4 / math.pi**2 * turn.square()
    with torch.no_grad():
        weight = shape / (shape - overlap + 1 + eps)
    return overlap - apart / diagonal - weight * shape


def corners(boxes: torch.Tensor) -> torch.Tensor:
    """x, y, w, h about the centre as x1, y1, x2, y2."""
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat((centre - half, centre + half), -1)


def anchors(scale: int, *, like: torch.Tensor) -> torch.Tensor:
    """The three shapes of a scale in cells of its grid."""
    return torch.tensor(ANCHORS[scale], dtype=like.dtype, device=like.device) / STRIDES[scale]


def decode(outputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """Pictures x boxes x (x, y, w, h in pixels, objectness, classes) of what the network gave."""
    found = []
    for scale, raw in enumerate(outputs):
        given = raw.float().sigmoid() if raw.dtype != torch.float64 else raw.sigmoid()
        rows, columns = given.shape[2:4]
        y, x = torch.meshgrid(
            torch.arange(rows, device=given.device), torch.arange(columns, device=given.device), indexing="ij"
        )
        cell = torch.stack((x, y), -1).to(given.dtype)
        centre = (2 * given[..., :2] - 0.5 + cell) * STRIDES[scale]
        side = (2 * given[..., 2:4]).square() * (anchors(scale, like=given) * STRIDES[scale])[
            :, None, None, :
        ]
        found.append(torch.cat((centre, side, given[..., 4:]), -1).flatten(1, 3))
    return torch.cat(found, 1)


def suppress(
    decoded: torch.Tensor,
    *,
    confidence: float = CONFIDENCE,
    overlap: float = OVERLAP,
    candidates: int = CANDIDATES,
    kept: int = KEPT,
) -> Detections:
    """Non-maximum suppression by class, of all pictures at once.

    A box counts once for every class of which it is confident enough. The most confident one left is kept,
    and the others of its class that overlap it go, until none is left or `kept` are: so the work is bounded
    by what is kept, and no list of pairs is made.
    """
    pictures, boxes, _ = decoded.shape
    classes = decoded.shape[2] - 5
    objectness = decoded[..., 4:5]
    scores = (decoded[..., 5:] * objectness).masked_fill(objectness <= confidence, 0.0).flatten(1)
    scores = scores.masked_fill(scores <= confidence, 0.0)
    scores, place = scores.topk(min(candidates, boxes * classes), dim=1)  # sorted
    if pictures:
        # What no picture has is not compared: the first time that this waits for the device.
        used = max(1, int((scores > 0).sum(1).amax()))
        scores, place = scores[:, :used].clone(), place[:, :used]
    kind = place % classes
    row = (place // classes).unsqueeze(2).expand(-1, -1, 4)
    frame = corners(decoded[..., :4]).gather(1, row)

    number = torch.arange(pictures, device=decoded.device)
    out_boxes = decoded.new_zeros(pictures, kept, 4)
    out_scores = decoded.new_zeros(pictures, kept)
    out_kinds = torch.zeros(pictures, kept, dtype=torch.long, device=decoded.device)
    for k in range(kept):
        best, at = scores.max(1)
        out_scores[:, k] = best
        out_boxes[:, k] = chosen = frame[number, at]
        out_kinds[:, k] = of = kind[number, at]
        gone = (iou(frame, chosen[:, None]) > overlap) & (kind == of[:, None])
        gone[number, at] = True
        scores = scores.masked_fill(gone, 0.0)
        if k % 32 == 31 and not bool((scores > 0).any()):
            break
    return Detections(boxes=out_boxes, scores=out_scores, classes=out_kinds, counts=(out_scores > 0).sum(1))
