# SPDX-License-Identifier: Apache-2.0
"""P1B1: an autoencoder that squeezes the gene expression of a tumour into two numbers (CANDLE Pilot 1).

docs/candle.md has the facts, the differences between the recipes, and what `scale` changes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from joulelab.data import generate_p1b1
from joulelab.errors import InputError
from joulelab.workloads import candle, share
from joulelab.workloads.keras_adam import KerasAdam
from joulelab.workloads.workload import Setting, Step, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WIDTHS = (2000, 600)
LATENT = 2
LAYOUT = candle.Layout(
    name="p1b1",
    version=generate_p1b1.VERSION,
    files=dict.fromkeys(
        generate_p1b1.FILES,
        "comma separated, with a header: case_id, cancer_type, then 60,483 genes as log10(1 + x)",
    ),
)


class P1B1(Workload):
    """Input and target are the same rows; all of them live on the device."""

    metrics = ("xent", "corr")

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.scale = float(setting.parameters["scale"])
        self.modern = setting.parameters["recipe"] == "modern"
        self.batch_size = int(setting.knobs["batch_size"])
        self._ending = candle.Ending(setting)

    # ---- load: CSV to tensors ------------------------------------------------------------------------------

    def prepare(self) -> None:
        if not self.setting.parameters["data"]:
            generate_p1b1.generate(candle.folder(self.setting, LAYOUT), scale=self.scale)

    def sources(self) -> str:
        return candle.sizes(self.setting, LAYOUT)

    def load(self) -> None:
        paths = candle.files(self.setting, LAYOUT)
        tables = [candle.read(self.setting, path, text=generate_p1b1.TEXT) for path in paths]
        if tables[0].names != tables[1].names:
            raise InputError(
                f"{paths[0]} and {paths[1]} do not have the same genes in the same order",
                cure="take both files from one source",
            )
        train, test = (
            candle.complete(path, table.values, device=self.setting.device, text=len(generate_p1b1.TEXT))
            for path, table in zip(paths, tables, strict=True)
        )
        candle.enough(paths[0], len(train))
        if self.modern:
            # Drawn at random once, the same for every seed; the scale is learnt from the rows that are
            # trained on.
            order = torch.randperm(len(train), generator=torch.Generator().manual_seed(candle.SPLIT_SEED))
            train = train[order.to(train.device)]
        held_out = len(train) // 10
        kept, val = train[: len(train) - held_out], train[len(train) - held_out :]
        candle.unit_range_([train, test], fitted_on=[kept] if self.modern else [train, test])
        self.train_x, self.val_x, self.test_x = (rows.to(self.setting.dtype) for rows in (kept, val, test))

    # ---- train ---------------------------------------------------------------------------------------------

    def model(self) -> nn.Module:
        with torch.device(self.setting.device):
            net = network(genes=int(self.train_x.shape[1]), scale=self.scale, bent_code=not self.modern)
        return net.to(self.setting.dtype)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        rate = float(self.setting.knobs["learning_rate"])
        if self.modern:
            return torch.optim.Adam(model.parameters(), lr=rate, foreach=True)
        return KerasAdam(model.parameters(), lr=rate)

    def batches(self, epoch: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
        self._ending.begin(epoch)
        for rows in share.batches(len(self.train_x), self.batch_size, generator, self.setting):
            yield self.train_x[rows]

    def loss(self, model: nn.Module, batch: Any) -> Step:
        logits = candle.widened(model(batch))
        loss = functional.mse_loss(logits.sigmoid(), batch)
        return Step(loss, len(batch), scores(logits.detach(), batch))

    # ---- evaluate ------------------------------------------------------------------------------------------

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        sums = torch.zeros(3, device=self.setting.device, dtype=torch.float64)
        for x in self._own(self.val_x):
            step = self.loss(model, x)
            sums += len(x) * torch.stack([step.loss, step.metrics["xent"], step.metrics["corr"]])
        loss, xent, corr = (share.added(sums, self.setting) / len(self.val_x)).tolist()
        figures = {"val_loss": loss, "val_xent": xent, "val_corr": corr}
        # The test file is looked at once, after the last epoch.
        return figures | (self._test(model) if self._ending.decide() else {})

    def _own(self, rows: torch.Tensor) -> Iterator[torch.Tensor]:
        """The held-out rows that are this worker's, in batches."""
        here = rows[share.held_out(len(rows), self.setting)]
        yield from here.split(self.batch_size)  # type: ignore[no-untyped-call]

    def on_epoch_end(self, metrics: Mapping[str, float], optimizer: torch.optim.Optimizer) -> bool:
        del metrics, optimizer
        return self._ending.over

    def state(self) -> dict[str, Any]:
        return {"ending": self._ending.state()}

    def restore(self, state: dict[str, Any]) -> None:
        self._ending.restore(state["ending"])

    def marks(self) -> dict[str, tuple[int, int]]:
        return candle.marks(self.setting, LAYOUT)

    def _test(self, model: nn.Module) -> dict[str, float]:
        left = torch.zeros(self.test_x.shape[1], device=self.setting.device, dtype=torch.float64)
        sums = torch.zeros(5, device=self.setting.device, dtype=torch.float64)
        for x in self._own(self.test_x):
            given = candle.widened(model(x)).sigmoid()
            left += (x - given).double().square().sum(0)
            a, b = given.double(), x.double()
            sums += torch.stack([a.sum(), b.sum(), a.square().sum(), b.square().sum(), (a * b).sum()])
        left, sums = share.added(left, self.setting), share.added(sums, self.setting)
        there = self.test_x.var(0, unbiased=False).double() * len(self.test_x)
        # A gene that does not vary counts 1 where it is met exactly and 0 elsewhere.
        explained = torch.where(there > 0, 1.0 - left / there.clamp(min=1e-300), (left == 0).double())
        return {
            "test_mse": (left.mean() / len(self.test_x)).item(),
            "test_r2": explained.mean().item(),
            "test_corr": correlation(sums / self.test_x.numel()),
        }


def scores(logits: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
    """Binary cross-entropy and Pearson's correlation over all cells of a batch."""
    limit = 16.118  # what is left of a logit when its probability is kept 1e-7 away from 0 and 1
    xent = functional.binary_cross_entropy_with_logits(logits.clamp(-limit, limit), target)
    given = logits.sigmoid()
    a, b = given - given.mean(), target - target.mean()
    corr = (a * b).mean() / ((a.square().mean() * b.square().mean()).sqrt() + 1e-7)
    return {"xent": xent, "corr": corr}


def correlation(means: torch.Tensor) -> float:
    """Pearson's, of the means of a, b, a squared, b squared and a times b; 0 where either does not vary."""
    a, b, aa, bb, ab = means.tolist()
    spread = max(aa - a * a, 0.0) * max(bb - b * b, 0.0)
    return (ab - a * b) / math.sqrt(spread) if spread > 0.0 else 0.0


def network(*, genes: int, scale: float, bent_code: bool = True) -> nn.Module:
    """The layers of the benchmark, without the sigmoid at the end; 244,400,085 parameters for 60,483 genes.

    `bent_code` is the benchmark's relu on the two numbers of the code, which can leave either of them dead.
    """
    wide, narrow = (candle.narrowed(width, scale, least=16) for width in WIDTHS)
    net = nn.Sequential(
        nn.Linear(genes, wide),
        nn.ReLU(),
        nn.Linear(wide, narrow),
        nn.ReLU(),
        nn.Linear(narrow, LATENT),
        nn.ReLU() if bent_code else nn.Identity(),
        nn.Linear(LATENT, narrow),
        nn.ReLU(),
        nn.Linear(narrow, wide),
        nn.ReLU(),
        nn.Linear(wide, genes),
    )
    candle.glorot_(net)
    return net
