# SPDX-License-Identifier: Apache-2.0
"""P1B2: which kind of tumour, from the mutated genes of a sample (CANDLE Pilot 1).

docs/candle.md has the facts, the differences between the recipes, and what `scale` changes.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from joulelab.data import generate_p1b2
from joulelab.errors import InputError
from joulelab.workloads import candle, share
from joulelab.workloads.workload import Setting, Step, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTHS = (1024, 512, 256)
PENALTY = 1e-5  # on the kernels of the hidden layers, and on what comes out of them
LAYOUT = candle.Layout(
    name="p1b2",
    version=generate_p1b2.VERSION,
    files=dict.fromkeys(
        generate_p1b2.FILES,
        "comma separated, with a header: case_id, cancer_type, then 28,204 genes as small whole numbers",
    ),
)


class P1B2(Workload):
    """Batches are rows of one tensor on the device."""

    metrics = ("accuracy",)

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.scale = float(setting.parameters["scale"])
        self.modern = setting.parameters["recipe"] == "modern"
        self.batch_size = int(setting.knobs["batch_size"])
        self._ending = candle.Ending(setting)

    # ---- load: CSV to tensors ------------------------------------------------------------------------------

    def prepare(self) -> None:
        if not self.setting.parameters["data"]:
            generate_p1b2.generate(candle.folder(self.setting, LAYOUT), scale=self.scale)

    def sources(self) -> str:
        return candle.sizes(self.setting, LAYOUT)

    def load(self) -> None:
        paths = candle.files(self.setting, LAYOUT)
        tables = [candle.read(self.setting, path, text=generate_p1b2.TEXT) for path in paths]
        kinds = [table.texts["cancer_type"].sorted() for table in tables]
        if tables[0].names != tables[1].names or kinds[0].words != kinds[1].words:
            raise InputError(
                f"{paths[0]} and {paths[1]} do not have the same genes and the same kinds of cancer: "
                f"{len(tables[0].names)} and {len(tables[1].names)} genes, "
                f"{', '.join(kinds[0].words)} and {', '.join(kinds[1].words)}",
                cure="take both files from one source",
            )
        self.kinds = len(kinds[0].words)
        train, test = (
            candle.complete(path, table.values, device=self.setting.device, text=len(generate_p1b2.TEXT))
            for path, table in zip(paths, tables, strict=True)
        )
        train_y, test_y = (torch.from_numpy(column.codes).long() for column in kinds)
        candle.enough(paths[0], len(train_y))
        val, kept = self._split(train_y)
        candle.unit_range_([train, test], fitted_on=[train[kept]] if self.modern else [train, test])
        self.train_x, self.val_x, self.test_x = (
            rows.to(self.setting.dtype) for rows in (train[kept], train[val], test)
        )
        self.train_y, self.val_y, self.test_y = (
            y.to(self.setting.device) for y in (train_y[kept], train_y[val], test_y)
        )

    def _split(self, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Row numbers for validation and for training."""
        rows = torch.arange(len(labels))
        if not self.modern:
            # The first tenth of a file that is sorted by kind: one kind, which training never sees.
            return rows[: len(labels) // 10], rows[len(labels) // 10 :]
        generator = torch.Generator().manual_seed(candle.SPLIT_SEED)
        held_out = torch.zeros(len(labels), dtype=torch.bool)
        for kind in range(self.kinds):
            own = rows[labels == kind]
            held_out[own[torch.randperm(len(own), generator=generator)[: -(-len(own) // 10)]]] = True
        return rows[held_out], rows[~held_out]

    # ---- train ---------------------------------------------------------------------------------------------

    def model(self) -> nn.Module:
        with torch.device(self.setting.device):
            net = Network(
                genes=int(self.train_x.shape[1]),
                kinds=self.kinds,
                widths=widths(self.scale),
                modern=self.modern,
            )
        return net.to(self.setting.dtype)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        rate = float(self.setting.knobs["learning_rate"])
        if self.modern:
            return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, foreach=True)
        assert isinstance(model, Network)
        kernels = model.kernels()
        others = [p for p in model.parameters() if all(p is not kernel for kernel in kernels)]
        groups: list[dict[str, Any]] = [
            {"params": kernels, "weight_decay": 2.0 * PENALTY},
            {"params": others},
        ]
        return torch.optim.RMSprop(groups, lr=rate, alpha=0.9, eps=1e-8, foreach=True)

    def batches(self, epoch: int, generator: torch.Generator) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        self._ending.begin(epoch)
        for rows in share.batches(len(self.train_y), self.batch_size, generator, self.setting):
            yield self.train_x[rows], self.train_y[rows]

    def loss(self, model: nn.Module, batch: Any) -> Step:
        x, y = batch
        logits, activity = model(x)
        hits = (logits.detach().argmax(1) == y).float().mean()
        if self.modern:
            return Step(functional.cross_entropy(logits, y), len(y), {"accuracy": hits})
        # Keras adds up the squares over the batch and does not divide by it. The kernels' own term reaches
        # the gradient as weight decay; here it is added as a number, because the benchmark prints it with the
        # loss.
        loss = renormalised_cross_entropy(logits, y) + PENALTY * (activity + self._kernel_squares(model))
        return Step(loss, len(y), {"accuracy": hits})

    @torch.no_grad()
    def _kernel_squares(self, model: nn.Module) -> torch.Tensor:
        assert isinstance(model, Network)
        return nn.utils.get_total_norm(model.kernels(), foreach=True).square()

    # ---- evaluate ------------------------------------------------------------------------------------------

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        loss, accuracy = self._score(model, self.val_x, self.val_y)
        figures = {"val_loss": loss, "val_accuracy": accuracy}
        if self._ending.decide():
            # The test file is looked at once, after the last epoch.
            figures["test_loss"], figures["test_accuracy"] = self._score(model, self.test_x, self.test_y)
        return figures

    def _score(self, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
        sums = torch.zeros(2, device=self.setting.device, dtype=torch.float64)
        own = share.held_out(len(y), self.setting)
        x, y, count = x[own], y[own], len(y)
        for first in range(0, len(y), self.batch_size):
            here = slice(first, first + self.batch_size)
            step = self.loss(model, (x[here], y[here]))
            sums += step.samples * torch.stack([step.loss, step.metrics["accuracy"]])
        loss, accuracy = (share.added(sums, self.setting) / count).tolist()
        return loss, accuracy

    def state(self) -> dict[str, Any]:
        return {"ending": self._ending.state()}

    def restore(self, state: dict[str, Any]) -> None:
        self._ending.restore(state["ending"])

    def marks(self) -> dict[str, tuple[int, int]]:
        return candle.marks(self.setting, LAYOUT)


def renormalised_cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Categorical cross-entropy over outputs that are sigmoids: Keras divides them by their sum first."""
    given = candle.widened(logits).sigmoid()
    share = (given / given.sum(1, keepdim=True)).clamp(1e-7, 1.0 - 1e-7)
    return -share.gather(1, labels[:, None]).log().mean()


def widths(scale: float) -> tuple[int, ...]:
    """The hidden layers at `scale`."""
    return tuple(candle.narrowed(width, scale, least=64) for width in WIDTHS)


class Network(nn.Module):
    """The layers of the benchmark, without the sigmoid at the end; 29,540,618 parameters for 28,204 genes.

    Returns the logits, and the sum of the squares of all that came out of the hidden layers.
    """

    def __init__(self, *, genes: int, kinds: int, widths: Sequence[int], modern: bool = False) -> None:
        super().__init__()
        sizes = [genes, *widths]
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.last = nn.Linear(sizes[-1], kinds)
        self.modern = modern
        candle.glorot_(self)

    def kernels(self) -> list[nn.Parameter]:
        """The weights of the hidden layers, without their biases."""
        return [p for name, p in self.hidden.named_parameters() if name.endswith("weight")]

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        squares = []
        for layer in self.hidden:
            x = layer(x)
            x = x.relu() if self.modern else x.sigmoid()
            if not self.modern:
                squares.append(candle.widened(x).square().sum())
        # Nothing to add up in the modern recipe, whose loss asks for nothing.
        return self.last(x), torch.stack(squares).sum() if squares else x.new_zeros(())
