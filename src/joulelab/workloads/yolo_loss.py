# SPDX-License-Identifier: Apache-2.0
"""Which boxes of the network answer for which objects, and what their errors cost.

What answers for what does not depend on what the network says, only on the objects: so it is decided on the
CPU while the device still works on the batch before, and the loss never waits for the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from joulelab.workloads.candle import widened
from joulelab.workloads.yolo_boxes import anchors, complete_iou
from joulelab.workloads.yolo_network import SHAPES, STRIDES

if TYPE_CHECKING:
    from collections.abc import Sequence

LARGEST_RATIO = (
    4.0  # of a side of an object to that of the shape that answers for it, and the other way round
)
SCALE_WEIGHTS = (4.0, 1.0, 0.4)  # of objectness
BOX_GAIN, OBJECTNESS_GAIN, CLASS_GAIN = 0.05, 1.0, 0.5
# The cell of the centre, and those into which half a cell to the left, up, right or down leads.
_SHIFTS = ((0.0, 0.0), (-0.5, 0.0), (0.0, -0.5), (0.5, 0.0), (0.0, 0.5))


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """At one scale: the boxes of the network that answer for an object, and what they should say."""

    picture: torch.Tensor
    shape: torch.Tensor
    row: torch.Tensor
    column: torch.Tensor
    box: torch.Tensor  # centre from the corner of the cell, width, height; in cells
    anchor: torch.Tensor  # the shape's width and height, in cells
    kind: torch.Tensor

    def to(self, device: torch.device, dtype: torch.dtype) -> Pairs:
        """The same on the device; a copy from pinned memory is not waited for."""
        if device.type == "cuda":
            moved = {name: part.pin_memory().to(device, non_blocking=True) for name, part in self._parts()}
        else:
            moved = dict(self._parts())
        for name in ("box", "anchor"):
            moved[name] = moved[name].to(dtype)
        return Pairs(**moved)

    def _parts(self) -> list[tuple[str, torch.Tensor]]:
        return [(name, getattr(self, name)) for name in self.__dataclass_fields__]


@dataclass(frozen=True, kw_only=True)
class Loss:
    """`total` is what is descended; the others are its terms with their gains, not times the batch."""

    total: torch.Tensor
    box: torch.Tensor
    objectness: torch.Tensor
    kind: torch.Tensor


def assign(objects: torch.Tensor, *, image_size: int) -> list[Pairs]:
    """For each scale the pairs of `objects`, rows of picture, class, x, y, w, h in pixels about the centre.

    A shape answers for an object if no side is more than four times that of the other. It does so in the
    cell of the centre, and in the nearer neighbour on each axis, if the grid has one there.
    """
    return [_at_scale(objects, scale, cells=image_size // STRIDES[scale]) for scale in range(len(STRIDES))]


def _at_scale(objects: torch.Tensor, scale: int, *, cells: int) -> Pairs:
    shapes = anchors(scale, like=objects)
    in_cells = objects[:, 2:] / STRIDES[scale]
    ratio = in_cells[None, :, 2:] / shapes[:, None]
    fits = torch.maximum(ratio, 1 / ratio).amax(2) < LARGEST_RATIO
    shape, number = fits.nonzero(as_tuple=True)
    centre = in_cells[number, :2]
    from_end = cells - centre
    # More than one cell from the edge, and in the half of the cell that lies towards the neighbour.
    before = (centre % 1 < 0.5) & (centre > 1)
    after = (from_end % 1 < 0.5) & (from_end > 1)
    taken = torch.cat((torch.ones_like(before[:, :1]), before, after), 1)
    which, move = taken.nonzero(as_tuple=True)
    shape, number, centre = shape[which], number[which], centre[which]
    cell = (centre + centre.new_tensor(_SHIFTS)[move]).floor().clamp(0, cells - 1)
    return Pairs(
        picture=objects[number, 0].long(),
        shape=shape,
        row=cell[:, 1].long(),
        column=cell[:, 0].long(),
        box=torch.cat((centre - cell, in_cells[number, 2:]), 1),
        anchor=shapes[shape],
        kind=objects[number, 1].long(),
    )


def loss(outputs: Sequence[torch.Tensor], pairs: Sequence[Pairs], *, image_size: int) -> Loss:
    """Box: 1 - CIoU, the mean of each scale; classes: the mean over pairs and classes; objectness: the mean
    over all boxes of the network, which shall say how well they overlap and 0 where nothing is.

    The total is multiplied by the number of pictures: a larger batch takes a larger step.
    """
    scales = len(outputs)
    classes = outputs[0].shape[-1] - 5
    zero = widened(outputs[0].new_zeros(()))
    box, objectness, kind = zero, zero, zero
    for raw, of, weight in zip(outputs, pairs, SCALE_WEIGHTS, strict=True):
        wanted = torch.zeros(raw.shape[:4], dtype=zero.dtype, device=raw.device)
        if len(of.picture):
            flat = ((of.picture * SHAPES + of.shape) * raw.shape[2] + of.row) * raw.shape[3] + of.column
            said = widened(raw[of.picture, of.shape, of.row, of.column])
            given = said[:, :4].sigmoid()
            centre, side = 2 * given[:, :2] - 0.5, (2 * given[:, 2:]).square() * of.anchor
            overlap = complete_iou(torch.cat((centre, side), 1), of.box)
            box = box + (1 - overlap).mean()
            # Where one box answers for several objects it takes the best overlap, in any order of them.
            wanted.view(-1).scatter_reduce_(0, flat, overlap.detach().clamp(min=0).to(wanted.dtype), "amax")
            one_hot = functional.one_hot(of.kind, classes).to(said.dtype)
            kind = kind + functional.binary_cross_entropy_with_logits(said[:, 5:], one_hot)
        cost = functional.binary_cross_entropy_with_logits(widened(raw[..., 4]), wanted)
        objectness = objectness + weight * cost
    box = box * BOX_GAIN * 3 / scales
    objectness = objectness * OBJECTNESS_GAIN * (image_size / 640) ** 2 * 3 / scales
    kind = kind * CLASS_GAIN * classes / 80 * 3 / scales
    total = (box + objectness + kind) * outputs[0].shape[0]
    return Loss(total=total, box=box.detach(), objectness=objectness.detach(), kind=kind.detach())
