# SPDX-License-Identifier: Apache-2.0
"""YOLOv5: boxes around objects in pictures, most of all in those from above (xView).

docs/detection.md has the facts, what differs from the original, and what the parameters do.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from joulelab.data import detection, generate_xview, pictures, xview_kinds
from joulelab.data.tiling import Cut
from joulelab.errors import InputError
from joulelab.workloads import yolo_boxes, yolo_map, yolo_schedule
from joulelab.workloads.workload import Setting, Step, Workload, mark
from joulelab.workloads.yolo_batches import Batch, Tiles
from joulelab.workloads.yolo_boxes import decode, suppress
from joulelab.workloads.yolo_loss import loss
from joulelab.workloads.yolo_network import SIZES, Network

if TYPE_CHECKING:
    from collections.abc import Iterator

    from joulelab.workloads.yolo_batches import Ready
    from joulelab.workloads.yolo_boxes import Detections

COMPARED = 32  # pictures whose detections are compared with each other at a time
ON_DEVICE, OBJECTS_A_TILE = 2048, 30  # of the source that reads nothing


class Yolo(Workload):
    """Squares of pictures in bytes, on the device if they fit there; what is random is drawn on the CPU."""

    metrics = ("box_loss", "objectness_loss", "class_loss")

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        given, knobs = setting.parameters, setting.knobs
        self.source = str(given["source"])
        self.side = int(given["image_size"])
        self.batch_size = int(knobs["batch_size"])
        self.steps_of = int(knobs.get("accumulate", 1))  # batches that are added up to one step
        if self.side % 32:
            raise InputError(
                f"image_size = {self.side} is not legal", cure="give a multiple of 32, the coarsest grid"
            )
        if bool(given["data"]) != (self.source in detection.LAYOUTS):
            has = f"data = '{given['data']}'" if given["data"] else "no data"
            raise InputError(
                f"source = '{self.source}' and {has}",
                cure="with source xview or coco name their folder in data; with stand-in or device name none",
            )

    # ---- load: pictures to squares of bytes ----------------------------------------------------------------

    def prepare(self) -> None:
        """The stand-in, and the squares: decoding is done once for all trials, and belongs to none."""
        if self.source == "device":
            return
        pictures.needed()
        yolo_map.needed()
        if self.source == "stand-in":
            scale = float(self.setting.parameters["scale"])
            generate_xview.generate(self._folder(), scale=scale, classes=self._asked())
        self._read()

    def load(self) -> None:
        if self.source == "device":
            self._make()
            return
        found = self._read()
        self.classes = len(found.classes)
        self.tiles = Tiles(
            torch.from_numpy(found.pixels), torch.from_numpy(found.boxes), device=self.setting.device
        )
        self.train_rows = torch.from_numpy(found.training)
        self.val_rows = torch.from_numpy(found.validation)

    def _read(self) -> Any:
        given = self.setting.parameters
        cut = Cut(side=self.side, tiled=given["cut"] == "tiles", overlap=float(given["overlap"]))
        return detection.read(
            self._folder(),
            layout="coco" if self.source == "coco" else "xview",
            cut=cut,
            classes=self._asked(),
            threads=int(self.setting.knobs.get("threads", 0)) or None,
        )

    def _asked(self) -> int:
        return int(self.setting.parameters["classes"])

    def _folder(self) -> Path:
        given = self.setting.parameters
        if given["data"]:
            return Path(str(given["data"]))
        kinds = self._asked() or "all"
        name = f"xview-v{generate_xview.VERSION}-scale{given['scale']:g}-classes{kinds}-seed0"
        return self.setting.data / name

    def _make(self) -> None:
        """Noise and made-up boxes: nothing is read, nothing can be learnt, and computing is all it costs."""
        self.classes = self._asked() or len(xview_kinds.KINDS)
        device = self.setting.device
        count = max(8, round(ON_DEVICE * float(self.setting.parameters["scale"])))
        generator = torch.Generator().manual_seed(0)
        objects = count * OBJECTS_A_TILE
        side = (torch.randn(objects, 2, generator=generator) * 0.7 + 3.2).exp().clamp(4, self.side / 2)
        low = torch.rand(objects, 2, generator=generator) * (self.side - side)
        kind = torch.randint(self.classes, (objects, 1), generator=generator).float()
        row = torch.arange(count).repeat_interleave(OBJECTS_A_TILE)[:, None].float()
        noise = torch.randint(256, (count, 3, self.side, self.side), dtype=torch.uint8, device=device)
        self.tiles = Tiles(noise, torch.cat((row, kind, low, low + side), 1), device=device)
        self.train_rows = torch.arange(count)
        self.val_rows = torch.arange(0)

    # ---- train ---------------------------------------------------------------------------------------------

    def model(self) -> nn.Module:
        with torch.device(self.setting.device):
            self._network = Network(SIZES[str(self.setting.parameters["size"])], classes=self.classes)
        return self._network.to(self.setting.dtype)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        # Of the network itself: `model` may be it in a wrapper, and by now it has its final layout in memory.
        self._average = yolo_schedule.Average(self._network)
        rate = float(self.setting.knobs["learning_rate"])
        made = yolo_schedule.optimizer(
            self._network, rate=rate, samples_a_step=self.batch_size * self.steps_of
        )
        self._schedule = yolo_schedule.Schedule(
            rate=rate, epochs=int(self.setting.knobs["epochs"]), batches=-(-self._share() // self.batch_size)
        )
        self._schedule.put(made, batch=0)
        return made

    def _share(self) -> int:
        """Rows of this rank: as many for each, so that all take as many steps."""
        return max(1, len(self.train_rows) // self.setting.ranks)

    def batches(self, epoch: int, generator: torch.Generator) -> Iterator[Ready]:
        del epoch
        order = self.train_rows[torch.randperm(len(self.train_rows), generator=generator)]
        own = order[self.setting.rank :: self.setting.ranks][: self._share()]
        mosaic = self.setting.parameters["augment"] == "mosaic"
        parts = list(torch.split(own, self.batch_size))
        yield from self.tiles.training(parts, among=self.train_rows, generator=generator, mosaic=mosaic)

    def place(self, batch: Any) -> Batch:
        """What the thread prepared, on the device, and augmented there."""
        return self.tiles.put(batch, dtype=self.setting.dtype)

    def loss(self, model: nn.Module, batch: Any) -> Step:
        here = batch if isinstance(batch, Batch) else self.place(batch)
        cost = loss(model(here.pictures), here.pairs, image_size=self.side)
        parts = {"box_loss": cost.box, "objectness_loss": cost.objectness, "class_loss": cost.kind}
        # Gradients of workers and of batches that make a step are averaged; the original adds them.
        times = self.setting.ranks * self.steps_of
        return Step(cost.total * times, len(here.pictures), parts)

    def on_step_end(self, model: nn.Module, optimizer: torch.optim.Optimizer, *, step: int) -> None:
        self._average.follow(self._network)
        self._schedule.put(optimizer, batch=step * self.steps_of)

    # ---- evaluate: the averaged weights, on whole tiles ----------------------------------------------------

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        del model
        if not len(self.val_rows):
            return {}
        found = [torch.zeros(0, 7)]
        for first, kept in self._detect(self._average.model, self.val_rows):
            # One copy for all pictures; what a row holds beyond the count of its picture is left behind.
            parts = kept.classes[..., None], kept.boxes, kept.scores[..., None]
            number = (
                torch.arange(first, first + len(kept.counts)).view(-1, 1, 1).expand(-1, yolo_boxes.KEPT, 1)
            )
            rows = torch.cat((number.double(), *(part.double().cpu() for part in parts)), 2)
            found.append(rows[torch.arange(yolo_boxes.KEPT) < kept.counts.cpu()[:, None]])
        wanted = self.tiles.objects(self.val_rows)
        return yolo_map.mean_average_precision(wanted, torch.cat(found), pictures=len(self.val_rows))

    def infer(self, model: nn.Module) -> int:
        """Boxes of every held-out tile; of noise, where there is nothing else. How many tiles that were."""
        rows = self.val_rows if len(self.val_rows) else self.train_rows
        for _ in self._detect(model, rows):
            pass
        return len(rows)

    # ---- checkpoints ---------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {"average": dict(self._average.model.state_dict()), "updates": self._average.updates}

    def restore(self, state: dict[str, Any]) -> None:
        self._average.model.load_state_dict(state["average"])
        self._average.updates = int(state["updates"])

    def marks(self) -> dict[str, tuple[int, int]]:
        rows = {"training tiles": self.train_rows, "held-out tiles": self.val_rows}
        found = {name: (len(some), mark(some)) for name, some in rows.items()}
        return found | {"objects": (len(self.tiles.boxes), mark(self.tiles.boxes))}

    def _detect(self, model: nn.Module, rows: torch.Tensor) -> Iterator[tuple[int, Detections]]:
        """The boxes of a few tiles after the other, and the place of the first of these in `rows`."""
        done = 0
        for some in torch.split(rows, 2 * self.batch_size):
            decoded = decode(model(self.tiles.pictures(some, dtype=self.setting.dtype)))
            for few in torch.split(decoded, COMPARED):
                yield done, suppress(few)
                done += len(few)
