# SPDX-License-Identifier: Apache-2.0
"""ResNet on pictures: the usual recipe of ImageNet, and one that reaches the same accuracy for fewer joules.

docs/vision.md says what both recipes are made of and where they come from.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from joulelab.data import image_cache, image_folder, synthetic
from joulelab.data.image_cache import Images
from joulelab.errors import InputError
from joulelab.workloads import schedule, share
from joulelab.workloads.averaged import Averaged
from joulelab.workloads.picture_augment import SMALL, Cropped, Normal, Shifted, alternately, middle
from joulelab.workloads.picture_mix import Mixed
from joulelab.workloads.picture_source import Batch, Source, source_for
from joulelab.workloads.picture_strong import Strong
from joulelab.workloads.resnet_choices import chosen
from joulelab.workloads.resnet_network import ResNet
from joulelab.workloads.workload import Setting, Step, Workload, mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REFERENCE = 256  # pictures in a step, for which the learning rate is given
FIXED = 4  # batches that the source `device` shows in turn
HALF_LIFE, AVERAGE_EVERY = 0.5, 4  # of the mean of the weights: in epochs; in steps
TOLD = 10  # times that decoding says how far it has come


class Resnet(Workload):
    """Pictures are bytes until the device turns them into numbers, a batch at a time."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        given, knobs = setting.parameters, setting.knobs
        self.size = int(given["image_size"])
        self.fast = given["recipe"] == "fast"
        self.choices = chosen(given)
        self.batch_size = int(knobs["batch_size"])
        self.epochs = int(knobs["epochs"])
        self.accumulate = int(knobs.get("accumulate", 1))
        self.rate = float(knobs["learning_rate"]) * self.batch_size * self.accumulate / REFERENCE
        self._epoch = 0
        self._mean: Averaged | None = None
        self._draws: Shifted | Cropped | None = None
        self._strong: Strong | None = None
        self._mixed: Mixed | None = None
        self._normal = Normal(
            device=setting.device,
            dtype=setting.dtype,
            channels_last=knobs.get("memory_format") == "channels_last",
        )

    # ---- load: pictures as bytes, on the device or mapped --------------------------------------------------

    def prepare(self) -> None:
        """Decode or draw: that is done once for all trials, and belongs to none."""
        if self.setting.parameters["data"] == "device":
            return
        train, val = self._found()
        for part in (train, val):
            if part.note:
                self.setting.say(part.note)
        self._batches_of(share.own_count(len(train.rows), self.setting))

    def load(self) -> None:
        if self.setting.parameters["data"] == "device":
            self._load_fixed()
            return
        found = self._found()
        self.classes = len(found[0].classes)
        self.notes = tuple(part.note for part in found if part.note)
        self.train, self.val = (
            source_for(
                torch.from_numpy(part.pixels),
                torch.from_numpy(part.labels),
                rows=torch.from_numpy(part.rows),
                device=self.setting.device,
            )
            for part in found
        )
        self.steps = self._batches_of(share.own_count(len(self.train), self.setting))

    def _found(self) -> tuple[Images, Images]:
        data = str(self.setting.parameters["data"])
        return self._folders(Path(data)) if data else self._drawn()

    def _stored(self) -> int:
        """The side of a picture in the cache: small ones as they are, others with room to cut from."""
        return self.size if self.size <= SMALL else round(self.size * 8 / 7)

    def _folders(self, root: Path) -> tuple[Images, Images]:
        # Before anything is decoded, which takes long.
        classes = [image_folder.classes(root / part) for part in ("train", "val")]
        if classes[0] != classes[1]:
            odd = sorted(set(classes[0]) ^ set(classes[1]))
            raise InputError(
                f"{root}: train and val have different classes: only one of them has {', '.join(odd[:5])}",
                cure="give both the same folders",
            )
        train, val = (
            image_cache.open_images(
                root / part,
                size=self._stored(),
                workers=int(self.setting.knobs.get("threads", 0)),
                progress=_tenths(f"decoding {root / part}", self.setting.say),
            )
            for part in ("train", "val")
        )
        return train, val

    def _drawn(self) -> tuple[Images, Images]:
        count, classes = int(self.setting.parameters["images"]), int(self.setting.parameters["classes"])
        parts = []
        for seed, images in ((0, count), (1, max(classes, count // 4))):
            pixels, labels = synthetic.kept(
                self.setting.data, count=images, classes=classes, size=self._stored(), seed=seed
            )
            names = tuple(map(str, range(classes)))
            rows = torch.arange(images).numpy()
            parts.append(Images(pixels=pixels, labels=labels, rows=rows, classes=names, skipped={}, note=""))
        return parts[0], parts[1]

    def _load_fixed(self) -> None:
        """A few batches of noise, ready on the device: what is left is the cost of computing."""
        self.classes = int(self.setting.parameters["classes"])
        self.steps = max(1, int(self.setting.parameters["images"]) // self.batch_size)
        put: dict[str, Any] = {"device": self.setting.device}
        shape = (self.batch_size, self.size, self.size, 3)
        self.fixed = [
            (
                self._normal(torch.randint(0, 256, shape, dtype=torch.uint8, **put)),
                torch.randint(0, self.classes, (self.batch_size,), **put),
            )
            for _ in range(FIXED)
        ]

    # ---- train ---------------------------------------------------------------------------------------------

    def model(self) -> nn.Module:
        given = self.setting.parameters
        with torch.device(self.setting.device):
            net = ResNet(
                int(given["depth"]),
                classes=self.classes,
                stem=str(given["stem"]),
                width=int(given["width"]),
            )
        # Not where nothing is trained: products with nought take less power than those of a trained network.
        if self.fast and self.setting.knobs.get("task") != "inference":
            net.begin_as_identity()
        return net.to(self.setting.dtype)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        # A fused step saves launches, but it advances its state on the steps that GradScaler must skip.
        fused = self.setting.device.type == "cuda" and self.setting.knobs["precision"] != "fp16"
        how: dict[str, Any] = {"fused": True} if fused else {"foreach": True}
        if self.fast:
            self._mean = Averaged(
                model,
                half_life=HALF_LIFE * self._moves(),
                # In a short epoch more often: what is evaluated after it must have been looked at.
                every=min(AVERAGE_EVERY, self._moves()),
            )
        optimizer = torch.optim.SGD(
            self._groups(model), lr=self.rate, momentum=0.9, nesterov=self.fast, **how
        )
        self._schedule(optimizer, step=0)
        return optimizer

    def _groups(self, model: nn.Module) -> list[dict[str, Any]]:
        if not self.fast:
            return [{"params": list(model.parameters()), "weight_decay": self.choices.decay}]
        # Scales and shifts have no size that decay could hold in check.
        kernels = [p for p in model.parameters() if p.ndim > 1]
        others = [p for p in model.parameters() if p.ndim <= 1]
        return [
            {"params": kernels, "weight_decay": self.choices.decay},
            {"params": others, "weight_decay": 0.0},
        ]

    def batches(self, epoch: int, generator: torch.Generator) -> Iterator[Any]:
        self._epoch = epoch
        if hasattr(self, "fixed"):
            for step in range(self.steps):
                yield self.fixed[step % FIXED]
            return
        order = share.order(len(self.train), generator, self.setting)
        if self.fast:
            order = order[: self.steps * self.batch_size]
        self._draw(order, generator)
        yield from self.train.batches(order, self.batch_size)

    def _draw(self, order: torch.Tensor, generator: torch.Generator) -> None:
        """What is random about the pictures of an epoch, on the device."""
        chosen, count = self.choices, len(order)
        seed = int(torch.randint(2**62, (1,), generator=generator))
        here = torch.Generator(self.setting.device).manual_seed(seed)
        progress = (self._epoch - 1) / self.epochs
        size = self.size
        if size <= SMALL:
            mirrored = None
            if chosen.alternating:
                seed = generator.initial_seed()
                mirrored = alternately(order, count=len(self.train), epoch=self._epoch, seed=seed)
                mirrored = mirrored.to(self.setting.device)
            self._draws = Shifted(count, size=size, hole=chosen.hole, generator=here, mirrored=mirrored)
        else:
            size = schedule.picture_size(progress, full=size) if self.fast else size
            self._draws = Cropped(count, size=size, least=0.35 if self.fast else 0.08, generator=here)
        self._strong = Strong(count, generator=here) if chosen.strong else None
        self._mixed = None
        if chosen.mix != "none" and progress < chosen.mix_until:
            self._mixed = Mixed(count, size=size, how=chosen.mix, share=chosen.mix_share, generator=here)

    def place(self, batch: Any) -> tuple[torch.Tensor, ...]:
        """Pictures and labels; where pictures are mixed, the others' labels and the shares of their own."""
        if not isinstance(batch, Batch):
            ready: tuple[torch.Tensor, ...] = batch
            return ready
        assert self._draws is not None
        pictures = self._draws.cut(batch.pictures, batch.rows, batch.part)
        if self._strong is None:
            x = self._normal(pictures)
        else:
            x = self._strong.place(self._normal(self._strong.colour(pictures, batch.part)), batch.part)
        x = self._draws.finish(x, batch.part)
        if self._mixed is None:
            return x, batch.labels
        x, others, own = self._mixed(x, batch.labels, batch.part)
        return x, batch.labels, others, own

    def loss(self, model: nn.Module, batch: Any) -> Step:
        x, y, *mixed = batch
        logits, smoothing = model(x), self.choices.smoothing
        if not mixed:
            return Step(functional.cross_entropy(logits, y, label_smoothing=smoothing), len(y))
        others, own = mixed
        of_own, of_others = (
            functional.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="none")
            for labels in (y, others)
        )
        return Step(torch.lerp(of_others, of_own, own.to(of_own.dtype)).mean(), len(y))

    def on_step_end(self, model: nn.Module, optimizer: torch.optim.Optimizer, *, step: int) -> None:
        self._schedule(optimizer, step=step)
        if self._mean is not None:
            self._mean.step(step)

    def _schedule(self, optimizer: torch.optim.Optimizer, *, step: int) -> None:
        progress = step / (self.epochs * self._moves())
        top = self.choices.peak
        share = schedule.triangle(progress, top=top) if self.fast else schedule.stairs(progress)
        for group in optimizer.param_groups:
            group["lr"] = self.rate * share

    def _moves(self) -> int:
        """Steps of the optimizer in an epoch: what is left over at its end makes one of its own."""
        return -(-self.steps // self.accumulate)

    def _batches_of(self, count: int) -> int:
        """Batches of an epoch; the fast recipe leaves the last one out if it is smaller."""
        if not self.fast:
            return -(-count // self.batch_size)
        if count < self.batch_size:
            raise InputError(
                f"batch_size = {self.batch_size} is more than the {count} training pictures",
                cure=f"legal: up to {count}",
            )
        return count // self.batch_size

    # ---- evaluate ------------------------------------------------------------------------------------------

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        # Noise has no held-out figures.
        if hasattr(self, "fixed") or self._epoch < self.choices.evaluate_from * self.epochs:
            return {}
        if self._mean is None:
            return self._score(model)
        with self._mean.put_on():
            return self._score(model)

    def _score(self, model: nn.Module) -> dict[str, float]:
        sums = torch.zeros(3, device=self.setting.device, dtype=torch.float64)
        for x, y, known in self._held_out(self.val):
            logits = self._logits(model, x).float()
            loss = functional.cross_entropy(logits, y, reduction="none")
            best = logits.topk(min(5, self.classes), 1).indices == y[:, None]
            figures = torch.stack([loss, best[:, 0].float(), best.any(1).float()], 1)
            sums += (figures * known[:, None]).sum(0)
        loss_, first, five = (share.added(sums, self.setting) / len(self.val)).tolist()
        return {"val_loss": loss_, "val_accuracy": first, "val_top5": five}

    def _logits(self, model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        logits = self._both_ways(model, x)
        if not self.choices.shifted:
            return logits
        # Of one shape and order with the picture itself, so that nothing is compiled for them.
        order = torch.channels_last if x.is_contiguous(memory_format=torch.channels_last) else None
        wide = functional.pad(x, (1, 1, 1, 1), mode="reflect")
        beside = [
            self._both_ways(model, part.contiguous(memory_format=order or torch.contiguous_format))
            for part in (wide[:, :, :-2, :-2], wide[:, :, 2:, 2:])
        ]
        return logits / 2 + (beside[0] + beside[1]) / 4

    def _both_ways(self, model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model(x)
        return (logits + model(x.flip(3))) / 2 if self.choices.mirrored else logits

    def _held_out(self, source: Source) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Batches all of one size, so that compiled code is made once: the last is filled up, and says so."""
        rows = torch.arange(len(source))[share.held_out(len(source), self.setting)]
        count = len(rows)
        if not count:
            return  # more workers than held-out pictures
        size = min(count, self.batch_size)
        padded = torch.arange(-(-count // size) * size)
        known = (padded < count).to(self.setting.device)
        for batch in source.batches(rows[padded % count], size):
            pictures = middle(batch.pictures[batch.rows], self.size)
            yield self._normal(pictures), batch.labels, known[batch.part]

    def infer(self, model: nn.Module) -> int:
        if hasattr(self, "fixed"):
            for step in range(self.steps):
                self._logits(model, self.fixed[step % FIXED][0])
            return self.steps * self.batch_size
        # Not filled up: what is asked is the cost of these pictures and of no others.
        for batch in self.val.batches(torch.arange(len(self.val)), self.batch_size):
            self._logits(model, self._normal(middle(batch.pictures[batch.rows], self.size)))
        return len(self.val)

    # ---- checkpoints ---------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {} if self._mean is None else {"mean": self._mean.state()}

    def restore(self, state: dict[str, Any]) -> None:
        if self._mean is not None:
            self._mean.restore(state["mean"])

    def marks(self) -> dict[str, tuple[int, int]]:
        if hasattr(self, "fixed"):
            return {}
        parts = {"training pictures": self.train, "held-out pictures": self.val}
        return {name: (len(part), mark(part.labels)) for name, part in parts.items()}


def _tenths(what: str, say: Callable[[str], None]) -> image_cache.Progress:
    """Says how far it is, each time that another tenth is done."""
    said = -1

    def tell(done: int, of: int) -> None:
        nonlocal said
        if (tenth := TOLD * done // of) > said:
            said = tenth
            say(f"{what}: {done:,} of {of:,} images")

    return tell
