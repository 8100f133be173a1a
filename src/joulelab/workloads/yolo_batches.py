# SPDX-License-Identifier: Apache-2.0
"""From tiles and boxes to what the network is shown and what it should say.

A thread prepares the next batch while this one is trained on: what is drawn, the boxes, which cell answers
for which of them, and the bytes of the tiles where these do not all fit on the device.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from joulelab.workloads import yolo_augment
from joulelab.workloads.yolo_loss import Pairs, assign

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from joulelab.workloads.yolo_augment import Draw


@dataclass(frozen=True, kw_only=True)
class Batch:
    pictures: torch.Tensor
    pairs: Sequence[Pairs]


@dataclass(frozen=True, kw_only=True)
class Ready:
    """What the thread hands over, all of it on the CPU."""

    rows: torch.Tensor
    pixels: torch.Tensor | None
    drawn: Draw | None
    pairs: Sequence[Pairs]


class Tiles:
    """Squares of bytes, rows x 3 x side x side, and their boxes: row, class, x1, y1, x2, y2 by row."""

    def __init__(self, pixels: torch.Tensor, boxes: torch.Tensor, *, device: torch.device) -> None:
        self.pixels = pixels
        self.boxes = boxes
        self.device = device
        self.side = int(pixels.shape[-1])
        rows = boxes[:, 0].contiguous().double()
        self._first = torch.searchsorted(rows, torch.arange(len(pixels) + 1, dtype=torch.float64))
        if device.type == "cuda" and pixels.device.type != "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            if pixels.numel() < free // 3:
                self.pixels = pixels.to(device)

    def objects(self, rows: torch.Tensor) -> torch.Tensor:
        """The boxes of `rows`, with the place in `rows` where the row's number was."""
        first = self._first[rows]
        counts = self._first[rows + 1] - first
        place = torch.arange(len(rows)).repeat_interleave(counts)
        within = torch.arange(int(counts.sum())) - (counts.cumsum(0) - counts).repeat_interleave(counts)
        return torch.cat((place[:, None].float(), self.boxes[first[place] + within, 1:]), 1)

    def training(
        self, order: Sequence[torch.Tensor], *, among: torch.Tensor, generator: torch.Generator, mosaic: bool
    ) -> Iterator[Ready]:
        """A batch for each of `order`; with `mosaic`, each picture has three more tiles `among` those."""

        def prepare(rows: torch.Tensor) -> Ready:
            return self._prepare(rows, among=among, generator=generator, mosaic=mosaic)

        pool = ThreadPoolExecutor(1)
        try:
            ahead = pool.submit(prepare, order[0]) if order else None
            for following in (*order[1:], None):
                assert ahead is not None
                ready = ahead.result()
                ahead = pool.submit(prepare, following) if following is not None else None
                yield ready
        finally:
            pool.shutdown(cancel_futures=True)

    def _prepare(
        self, rows: torch.Tensor, *, among: torch.Tensor, generator: torch.Generator, mosaic: bool
    ) -> Ready:
        count = len(rows)
        drawn = None
        if mosaic:
            others = among[torch.randint(len(among), (count, 3), generator=generator)]
            four = torch.cat((rows[:, None], others), 1)
            mixed = torch.rand(count, 4, generator=generator).argsort(1)
            rows = four.gather(1, mixed).flatten()
            drawn = yolo_augment.draw(count, generator)
            objects = self.objects(rows)
            corner = (objects[:, 0] % 4)[:, None]
            # Tiles stand at 0, 0 and 1, 0 and 0, 1 and 1, 1.
            shift = torch.cat((corner % 2, corner // 2), 1).repeat(1, 2) * self.side
            placed = torch.cat((objects[:, :1] // 4, objects[:, 1:2], objects[:, 2:] + shift), 1)
            about = yolo_augment.boxes(placed, drawn, side=self.side)
        else:
            objects = self.objects(rows)
            middle = (objects[:, 2:4] + objects[:, 4:]) / 2
            about = torch.cat((objects[:, :2], middle, objects[:, 4:] - objects[:, 2:4]), 1)
        return Ready(
            rows=rows, pixels=self._bytes(rows), drawn=drawn, pairs=assign(about, image_size=self.side)
        )

    def _bytes(self, rows: torch.Tensor) -> torch.Tensor | None:
        """The tiles' bytes, unless all tiles are on the device already."""
        if self.pixels.device.type == self.device.type == "cuda":
            return None
        taken = self.pixels[rows]
        return taken.pin_memory() if self.device.type == "cuda" else taken

    def put(self, ready: Ready, *, dtype: torch.dtype) -> Batch:
        """What was prepared, on the device and in the format of the network."""
        if ready.pixels is None:
            pixels = self.pixels[ready.rows.to(self.device, non_blocking=True)]
        else:
            pixels = ready.pixels.to(self.device, non_blocking=True)
        if ready.drawn is None:
            pictures = as_floats(pixels, dtype=dtype)
        else:
            four = pixels.view(-1, 4, *pixels.shape[1:])
            pictures = yolo_augment.pixels(four, ready.drawn.to(self.device), dtype=dtype)
        return Batch(pictures=pictures, pairs=[of.to(self.device, dtype) for of in ready.pairs])

    def pictures(self, rows: torch.Tensor, *, dtype: torch.dtype) -> torch.Tensor:
        """Tiles as they are, on the device."""
        return as_floats(self.pixels[rows.to(self.pixels.device)].to(self.device), dtype=dtype)


def as_floats(pixels: torch.Tensor, *, dtype: torch.dtype) -> torch.Tensor:
    return pixels.to(dtype) / 255
