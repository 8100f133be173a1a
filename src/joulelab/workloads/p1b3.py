# SPDX-License-Identifier: Apache-2.0
"""P1B3: how much tumour cells grow under a drug, from tables that describe both (CANDLE Pilot 1).

docs/candle.md has the facts, the differences between the recipes, and what `scale` changes.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from joulelab.data import generate_p1b3, p1b3_join
from joulelab.errors import InputError
from joulelab.workloads import candle, share
from joulelab.workloads.workload import Setting, Step, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTHS = (1000, 500, 100, 50)
DROPOUT = 0.1
LAYOUT = candle.Layout(
    name="p1b3",
    version=generate_p1b3.VERSION,
    files={
        generate_p1b3.RESPONSE: "comma separated with a header: NSC, CELLNAME, LOG_CONCENTRATION, GROWTH",
        generate_p1b3.EXPRESSION: "tab separated, with a header: CellLine, then 25,722 genes",
        generate_p1b3.DRUG_TABLE: "tab separated with a header: NAME, 3,809 descriptors; gaps: na, -, empty",
        generate_p1b3.TEST_CELLS: "one name of a cell line a line, under the header CELLNAME",
        generate_p1b3.TEST_DRUGS: "one number of a drug a line, under the header NSC",
    },
)
_ROLES = ("response", "expression", "descriptors", "test_cells", "test_drugs")


class Cycle:
    """Row numbers from `first` on, `count` of them, again and again; a batch begins where the last ended."""

    def __init__(self, first: int, count: int) -> None:
        self.first = first
        self.count = count
        self.at = 0

    def take(self, size: int, device: torch.device) -> slice | torch.Tensor:
        """What to index with: a slice unless the rows begin anew in between; it costs the device nothing."""
        start, self.at = self.at, (self.at + size) % self.count
        if start + size <= self.count:
            return slice(self.first + start, self.first + start + size)
        return (torch.arange(start, start + size, device=device) % self.count) + self.first


class P1B3(Workload):
    """The two tables live on the device and batches are gathered from them; the join would be 100 GB."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.scale = float(setting.parameters["scale"])
        self.modern = setting.parameters["recipe"] == "modern"
        self.columns_drawn = int(setting.parameters.get("feature_subsample", 0))
        self.batch_size = int(setting.knobs["batch_size"])

    # ---- load: five files to two tables and a list of rows -------------------------------------------------

    def prepare(self) -> None:
        if not self.setting.parameters["data"]:
            generate_p1b3.generate(candle.folder(self.setting, LAYOUT), scale=self.scale)

    def sources(self) -> str:
        return candle.sizes(self.setting, LAYOUT)

    def load(self) -> None:
        paths = dict(zip(_ROLES, candle.files(self.setting, LAYOUT), strict=True))
        joined = p1b3_join.join(paths, partial(candle.read, self.setting), columns_drawn=self.columns_drawn)
        if joined.val < self.batch_size or joined.test < self.batch_size:
            # Whole batches only, in the benchmark: with fewer rows than one there would be nothing to
            # average.
            raise InputError(
                f"P1B3: batch_size = {self.batch_size} is more than the {joined.val} rows of validation "
                f"or the {joined.test} rows of the test",
                cure=f"legal: up to {min(joined.val, joined.test)}, or more data (scale is {self.scale:g})",
            )
        device = self.setting.device
        put: dict[str, Any] = {"device": device, "dtype": self.setting.dtype}
        self.cells, self.drugs = (
            torch.from_numpy(joined.cells).to(**put),
            torch.from_numpy(joined.drugs).to(**put),
        )
        self.cell, self.drug = (
            torch.from_numpy(joined.cell).to(device),
            torch.from_numpy(joined.drug).to(device),
        )
        self.dose, self.growth = (
            torch.from_numpy(joined.dose).to(**put),
            torch.from_numpy(joined.growth).to(**put),
        )
        self.train_rows = joined.train
        after = joined.train + joined.val
        self.train_cycle = Cycle(0, joined.train)
        self._epoch_at = 0  # where the training rows stood when the epoch began
        # Each reader of the validation rows has its own place in them.
        self.val_cycles = Cycle(joined.train, joined.val), Cycle(joined.train, joined.val)
        self.test_cycle = Cycle(after, joined.test)

    # ---- train ---------------------------------------------------------------------------------------------

    def model(self) -> nn.Module:
        inputs = 1 + self.cells.shape[1] + self.drugs.shape[1]
        with torch.device(self.setting.device):
            return network(
                inputs=inputs, scale=self.scale, columns_drawn=self.columns_drawn, modern=self.modern
            ).to(self.setting.dtype)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        rate = float(self.setting.knobs["learning_rate"])
        # foreach, not fused: a fused optimizer advances its state on the steps that GradScaler must skip.
        if self.modern:
            return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, foreach=True)
        if self.scale >= 1.0:
            return torch.optim.SGD(model.parameters(), lr=rate, foreach=True)
        # A step moves the output of a layer by the learning rate times the squared length of what goes in,
        # which grows with the number of inputs: with fewer than at full scale the same step needs more.
        full = dict(zip((f"dense_{n}" for n in range(1, 6)), full_widths(self.columns_drawn), strict=True))
        groups: list[dict[str, Any]] = [
            {"params": [layer.weight], "lr": rate * full[name] / layer.in_features}
            for name, layer in model.named_children()
            if isinstance(layer, nn.Linear)
        ]
        biases = [p for name, p in model.named_parameters() if name.endswith("bias")]
        return torch.optim.SGD([{"params": biases}, *groups], lr=rate, foreach=True)

    def batches(self, epoch: int, generator: torch.Generator) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        del epoch
        self._epoch_at = self.train_cycle.at
        if self.modern:
            for rows in share.batches(self.train_rows, self.batch_size, generator, self.setting):
                yield self._gather(rows)
            return
        # In the order of the file, as every worker of the benchmark does; dealt out, they take turns.
        turns = self.setting.ranks if share.deals_rows(self.setting) else 1
        for _ in range(self.train_rows // (self.batch_size * turns)):
            taken = [self.train_cycle.take(self.batch_size, self.setting.device) for _ in range(turns)]
            yield self._gather(taken[self.setting.rank % turns])

    def _gather(self, rows: slice | torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.cat([self.dose[rows, None], self.cells[self.cell[rows]], self.drugs[self.drug[rows]]], 1)
        return x, self.growth[rows]

    def loss(self, model: nn.Module, batch: Any) -> Step:
        x, y = batch
        return Step(functional.mse_loss(candle.widened(model(x)[:, 0]), y), len(y))

    # ---- evaluate ------------------------------------------------------------------------------------------

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        first, second = self.val_cycles
        loss, accuracy = self._score(model, first)
        if not self.modern:
            # The benchmark goes over the validation rows once for the loss and once more for the accuracy.
            _, accuracy = self._score(model, second)
        test_loss, test_accuracy = self._score(model, self.test_cycle)
        return {
            "val_loss": loss,
            "val_accuracy": accuracy,
            "test_loss": test_loss,
            "test_accuracy": test_accuracy,
        }

    def _score(self, model: nn.Module, cycle: Cycle) -> tuple[float, float]:
        """Mean squared error, and how often growth and its prediction fall on the same side of zero."""
        sums = torch.zeros(2, device=self.setting.device, dtype=torch.float64)
        steps = cycle.count // self.batch_size
        taken = [cycle.take(self.batch_size, self.setting.device) for _ in range(steps)]
        for rows in taken[share.held_out(steps, self.setting)]:
            x, y = self._gather(rows)
            given = candle.widened(model(x)[:, 0])
            sums += torch.stack([functional.mse_loss(given, y), ((given >= 0) == (y >= 0)).float().mean()])
        loss, accuracy = (share.added(sums, self.setting) / steps).tolist()
        return loss, accuracy

    def state(self) -> dict[str, Any]:
        return {
            "train_at": self._epoch_at,
            "val_at": [c.at for c in self.val_cycles],
            "test_at": self.test_cycle.at,
        }

    def restore(self, state: dict[str, Any]) -> None:
        cycles = self.train_cycle, *self.val_cycles, self.test_cycle
        for cycle, at in zip(cycles, [state["train_at"], *state["val_at"], state["test_at"]], strict=True):
            cycle.at = int(at)

    def marks(self) -> dict[str, tuple[int, int]]:
        return candle.marks(self.setting, LAYOUT)


def full_widths(columns_drawn: int) -> tuple[int, ...]:
    """What goes into each of the dense layers at full scale."""
    tables = generate_p1b3.GENES, generate_p1b3.DESCRIPTORS
    return 1 + sum(min(width, columns_drawn or width) for width in tables), *WIDTHS


def widths(scale: float) -> tuple[int, ...]:
    """The hidden layers at `scale`; the last two are small at any."""
    return tuple(candle.narrowed(width, scale, least=min(width, 100)) for width in WIDTHS)


def network(
    *, inputs: int, scale: float = 1.0, columns_drawn: int = 0, modern: bool = False
) -> nn.Sequential:
    """The layers of the benchmark; 30,088,701 parameters for 29,532 inputs, 1,557,701 for 1,001.

    Where a layer has fewer inputs than at full scale, its weights begin larger by the root of the ratio: what
    comes out of it is as large as there.
    """
    sizes = [inputs, *widths(scale)]
    net = nn.Sequential()
    for number, (a, b) in enumerate(pairwise(sizes), start=1):
        layer = nn.Linear(a, b)
        net.add_module(f"dense_{number}", layer)
        net.add_module(f"relu_{number}", nn.ReLU())
        net.add_module(f"dropout_{number}", nn.Dropout(DROPOUT))
        if modern:
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
        else:
            full = full_widths(columns_drawn)[number - 1] if scale < 1.0 else a
            nn.init.normal_(layer.weight, 0.0, 0.05 * math.sqrt(full / a))
        nn.init.zeros_(layer.bias)
    last = nn.Linear(sizes[-1], 1)
    candle.glorot_(last)
    net.add_module("dense_5", last)
    return net
