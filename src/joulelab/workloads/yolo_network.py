# SPDX-License-Identifier: Apache-2.0
"""The layers of YOLOv5 (releases 6 and 7), by its published structure: sizes n, s, m, l and x.

A size is a factor for the number of blocks and one for the number of channels. Three scales come out, with
strides 8, 16 and 32; at each cell of each, three boxes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn
from torch.nn import functional

STRIDES = (8, 16, 32)
# Widths and heights in pixels of the three boxes that each scale begins from.
ANCHORS = (
    ((10, 13), (16, 30), (33, 23)),
    ((30, 61), (62, 45), (59, 119)),
    ((116, 90), (156, 198), (373, 326)),
)
SHAPES = len(ANCHORS[0])


@dataclass(frozen=True, kw_only=True)
class Size:
    """What the counts of the largest description are multiplied by."""

    depth: float
    width: float

    def channels(self, full: int) -> int:
        return math.ceil(full * self.width / 8) * 8

    def blocks(self, full: int) -> int:
        return max(round(full * self.depth), 1)


SIZES = {
    "n": Size(depth=0.33, width=0.25),
    "s": Size(depth=0.33, width=0.50),
    "m": Size(depth=0.67, width=0.75),
    "l": Size(depth=1.0, width=1.0),
    "x": Size(depth=1.33, width=1.25),
}


class Conv(nn.Sequential):
    """Convolution without a bias, batch norm, SiLU; a stride of 1 keeps the size of the picture."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, pad: int | None = None):
        super().__init__()
        pad = kernel // 2 if pad is None else pad
        self.add_module("conv", nn.Conv2d(inputs, outputs, kernel, stride, pad, bias=False))
        self.add_module("norm", nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.03))
        self.add_module("act", nn.SiLU(inplace=True))


class Bottleneck(nn.Module):
    def __init__(self, channels: int, *, residual: bool) -> None:
        super().__init__()
        self.narrow = Conv(channels, channels, 1)
        self.look = Conv(channels, channels, 3)
        self.residual = residual

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.look(self.narrow(x))
        return x + y if self.residual else y


class C3(nn.Module):
    """Half of the channels go through `blocks` bottlenecks, half around them."""

    def __init__(self, inputs: int, outputs: int, *, blocks: int, residual: bool = True) -> None:
        super().__init__()
        half = outputs // 2
        self.through = Conv(inputs, half, 1)
        self.around = Conv(inputs, half, 1)
        self.blocks = nn.Sequential(*(Bottleneck(half, residual=residual) for _ in range(blocks)))
        self.join = Conv(2 * half, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        joined = torch.cat((self.blocks(self.through(x)), self.around(x)), 1)
        return cast("torch.Tensor", self.join(joined))


class SPPF(nn.Module):
    """What is largest within 5, 9 and 13 cells, by three poolings one after the other."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.narrow = Conv(channels, channels // 2, 1)
        self.join = Conv(2 * channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = [self.narrow(x)]
        for _ in range(3):
            seen.append(functional.max_pool2d(seen[-1], 5, 1, 2))
        return cast("torch.Tensor", self.join(torch.cat(seen, 1)))


class Network(nn.Module):
    """Pictures in, three tensors out: pictures x 3 x rows x columns x (x, y, w, h, objectness, classes).

    What comes out is raw; `yolo_boxes.decode` makes boxes in pixels of it.
    """

    def __init__(self, size: Size, *, classes: int) -> None:
        super().__init__()
        self.classes = classes
        c64, c128, c256, c512, c1024 = (size.channels(full) for full in (64, 128, 256, 512, 1024))
        three, six, nine = (size.blocks(full) for full in (3, 6, 9))
        # ---- down: each halves the picture, then looks at it ----
        self.down_1 = Conv(3, c64, 6, 2, 2)
        self.down_2 = Conv(c64, c128, 3, 2)
        self.look_2 = C3(c128, c128, blocks=three)
        self.down_3 = Conv(c128, c256, 3, 2)
        self.look_3 = C3(c256, c256, blocks=six)
        self.down_4 = Conv(c256, c512, 3, 2)
        self.look_4 = C3(c512, c512, blocks=nine)
        self.down_5 = Conv(c512, c1024, 3, 2)
        self.look_5 = C3(c1024, c1024, blocks=three)
        self.pool_5 = SPPF(c1024)
        # ---- up again, joined with what was seen on the way down ----
        self.side_5 = Conv(c1024, c512, 1)
        self.up_4 = C3(2 * c512, c512, blocks=three, residual=False)
        self.side_4 = Conv(c512, c256, 1)
        self.out_3 = C3(2 * c256, c256, blocks=three, residual=False)
        # ---- and down once more ----
        self.back_4 = Conv(c256, c256, 3, 2)
        self.out_4 = C3(2 * c256, c512, blocks=three, residual=False)
        self.back_5 = Conv(c512, c512, 3, 2)
        self.out_5 = C3(2 * c512, c1024, blocks=three, residual=False)
        self.heads = nn.ModuleList(
            nn.Conv2d(channels, SHAPES * (5 + classes), 1) for channels in (c256, c512, c1024)
        )
        self._start()

    @torch.no_grad()
    def _start(self) -> None:
        """Few cells hold anything, and of what they hold each class is as likely: the biases say so."""
        for head, stride in zip(self.heads, STRIDES, strict=True):
            assert isinstance(head, nn.Conv2d)
            assert head.bias is not None
            of_box = head.bias.view(SHAPES, 5 + self.classes)
            of_box[:, 4] += math.log(8 / (640 / stride) ** 2)
            of_box[:, 5:] += math.log(0.6 / (self.classes - 0.99999))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        seen_3 = self.look_3(self.down_3(self.look_2(self.down_2(self.down_1(x)))))
        seen_4 = self.look_4(self.down_4(seen_3))
        side_5 = self.side_5(self.pool_5(self.look_5(self.down_5(seen_4))))
        side_4 = self.side_4(self.up_4(torch.cat((_doubled(side_5), seen_4), 1)))
        out_3 = self.out_3(torch.cat((_doubled(side_4), seen_3), 1))
        out_4 = self.out_4(torch.cat((self.back_4(out_3), side_4), 1))
        out_5 = self.out_5(torch.cat((self.back_5(out_4), side_5), 1))
        return [self._by_box(head(out)) for head, out in zip(self.heads, (out_3, out_4, out_5), strict=True)]

    def _by_box(self, out: torch.Tensor) -> torch.Tensor:
        pictures, _, rows, columns = out.shape
        return out.view(pictures, SHAPES, 5 + self.classes, rows, columns).permute(0, 1, 3, 4, 2)


def _doubled(x: torch.Tensor) -> torch.Tensor:
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")
