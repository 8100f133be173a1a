# SPDX-License-Identifier: Apache-2.0
"""NT3: a 1-D convolution over gene expression that tells tumour from normal tissue (CANDLE Pilot 1).

The model, its start, its loss and its schedule follow the benchmark of 2018, which was written for Keras 2.2;
docs/workloads.md lists what that means and what `scale` changes.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from joulelab.data import LOADERS, generate_nt3
from joulelab.errors import InputError
from joulelab.records import plugin
from joulelab.workloads import candle, share
from joulelab.workloads.workload import Setting, Step, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FILTERS = 128
KERNELS = (20, 10)
POOL = 10
DENSE = (200, 20)
DROPOUT = 0.1
USUAL_INPUTS = 1_000  # of a layer whose rate the modern recipe leaves as it is
LAYOUT = candle.Layout(
    name="nt3",
    version=generate_nt3.VERSION,
    files=dict.fromkeys(
        generate_nt3.FILES, "comma separated, without a header: the label 0 or 1, then 60,483 genes"
    ),
)


class NT3(Workload):
    """Batches are slices of one tensor on the device; the whole set is small enough to live there."""

    metrics = ("accuracy",)

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.scale = float(setting.parameters["scale"])
        self.modern = setting.parameters.get("recipe", "paper") == "modern"
        self.batch_size = int(setting.knobs["batch_size"])
        self._ending = candle.Ending(setting)

    # ---- load: CSV to tensors ------------------------------------------------------------------------------

    def prepare(self) -> None:
        if not self.setting.parameters["data"]:
            generate_nt3.generate(candle.folder(self.setting, LAYOUT), scale=self.scale)

    def sources(self) -> str:
        return candle.sizes(self.setting, LAYOUT)

    def load(self) -> None:
        read = plugin.load(LOADERS, str(self.setting.knobs["loader"]), what="loader")
        threads = int(self.setting.knobs.get("threads", 0)) or None
        paths = candle.files(self.setting, LAYOUT)
        # Scaled where it is trained on: a GPU goes over the tables a hundred times as fast as the host.
        device, dtype = self.setting.device, self.setting.dtype
        tables = [
            candle.complete(path, read(path, threads=threads), device=device, header=False) for path in paths
        ]
        labels = [self._labels(path, table[:, 0]) for path, table in zip(paths, tables, strict=True)]
        if tables[0].shape[1] != tables[1].shape[1]:
            raise InputError(
                f"{paths[0].parent}: the training file has {tables[0].shape[1]} columns and the test file "
                f"{tables[1].shape[1]}",
                cure="take both files from one source",
            )
        genes = [table[:, 1:] for table in tables]
        train_y, self.test_y = labels
        if not self.modern:
            # One divisor a gene over training and test rows together, as the benchmark does; a gene of zeros
            # stays zero.
            peak = torch.stack([table.abs().amax(0) for table in genes]).amax(0)
            peak[peak == 0] = 1.0
            train, self.test_x = ((table / peak).unsqueeze(1).to(dtype) for table in genes)
            # The test file is the validation set of the benchmark.
            self.train_x, self.val_x, self.train_y, self.val_y = train, self.test_x, train_y, self.test_y
            return
        candle.enough(paths[0], len(labels[0]))
        held_out = self._held_out(labels[0])
        # Expression is log-normal: as it stands, a gene's largest value pushes all its others towards 0.
        genes = [table.log1p() for table in genes]
        spread, mean = torch.std_mean(genes[0][~held_out], dim=0)
        spread[spread == 0] = 1.0
        train, self.test_x = (table.sub_(mean).div_(spread).unsqueeze(1).to(dtype) for table in genes)
        val, kept = held_out, ~held_out
        self.train_x, self.val_x, self.train_y, self.val_y = (
            train[kept],
            train[val],
            train_y[kept],
            train_y[val],
        )

    def _held_out(self, labels: torch.Tensor) -> torch.Tensor:
        """For each row of the training file whether the modern recipe validates on it: a tenth of a kind."""
        generator = torch.Generator().manual_seed(candle.SPLIT_SEED)
        held_out = torch.zeros(len(labels), dtype=torch.bool)
        for kind in range(2):
            own = (labels == kind).nonzero()[:, 0].cpu()
            held_out[own[torch.randperm(len(own), generator=generator)[: -(-len(own) // 10)]]] = True
        return held_out.to(labels.device)

    def _labels(self, path: Path, column: torch.Tensor) -> torch.Tensor:
        if not bool(((column == 0) | (column == 1)).all()):
            raise InputError(f"{path}: the first column must be the label, 0 or 1, in every row")
        return column.to(torch.int64)

    # ---- train ---------------------------------------------------------------------------------------------

    def model(self) -> nn.Module:
        with torch.device(self.setting.device):
            net = network(genes=self._genes(), filters=filters(self.scale))
        return net.to(self.setting.dtype)

    def _genes(self) -> int:
        return int(self.train_x.shape[-1])

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        rate = float(self.setting.knobs["learning_rate"])
        weights = dict(model.named_parameters())
        first_dense = weights.pop("dense_1.weight")
        if self.modern:
            # A step of Adam moves every weight as far, so with hundreds of thousands of inputs it throws the
            # output about: the rate of that layer falls with their number.
            wide: dict[str, Any] = {
                "params": [first_dense],
                "lr": rate * min(1.0, USUAL_INPUTS / first_dense.shape[1]),
            }
            usual: dict[str, Any] = {"params": list(weights.values())}
            optimizer: torch.optim.Optimizer = torch.optim.AdamW(
                [usual, wide], lr=rate, weight_decay=0.01, foreach=True
            )
            self._plateau = plateau(optimizer)
            return optimizer
        factor = first_dense_factor(genes=self._genes(), scale=self.scale)
        # foreach, not fused: a fused SGD advances its state on the overflowing steps that GradScaler must
        # skip.
        groups: list[dict[str, Any]] = [
            {"params": list(weights.values())},
            {"params": [first_dense], "lr": rate * factor},
        ]
        optimizer = torch.optim.SGD(groups, lr=rate, foreach=True)
        self._plateau = plateau(optimizer)
        return optimizer

    def batches(self, epoch: int, generator: torch.Generator) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        self._ending.begin(epoch)
        with measured_convolutions():
            for rows in share.batches(len(self.train_y), self.batch_size, generator, self.setting):
                yield self.train_x[rows], self.train_y[rows]

    def loss(self, model: nn.Module, batch: Any) -> Step:
        x, y = batch
        logits = model(x)
        hits = (logits.detach().argmax(1) == y).float().mean()
        return Step(functional.cross_entropy(logits, y), len(y), {"accuracy": hits})

    # ---- evaluate ------------------------------------------------------------------------------------------

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        loss, accuracy = self._score(model, self.val_x, self.val_y)
        figures = {"val_loss": loss, "val_accuracy": accuracy}
        if self._ending.decide() and self.modern:
            # The test file is looked at once, after the last epoch.
            figures["test_loss"], figures["test_accuracy"] = self._score(model, self.test_x, self.test_y)
        return figures

    def _score(self, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
        sums = torch.zeros(2, device=self.setting.device, dtype=torch.float64)
        size = self.batch_size
        with measured_convolutions():
            here = share.held_out(len(y), self.setting)
            for rows, labels in zip(torch.split(x[here], size), torch.split(y[here], size), strict=True):
                logits = model(rows)
                loss = functional.cross_entropy(logits, labels, reduction="sum")
                sums += torch.stack([loss, (logits.argmax(1) == labels).sum()])
        loss, accuracy = (share.added(sums, self.setting) / len(y)).tolist()
        return loss, accuracy

    def on_epoch_end(self, metrics: Mapping[str, float], optimizer: torch.optim.Optimizer) -> bool:
        del optimizer
        self._plateau.step(metrics["val_loss"])
        return self._ending.over

    def state(self) -> dict[str, Any]:
        return {"plateau": self._plateau.state_dict(), "ending": self._ending.state()}

    def restore(self, state: dict[str, Any]) -> None:
        self._plateau.load_state_dict(state["plateau"])
        self._ending.restore(state["ending"])

    def marks(self) -> dict[str, tuple[int, int]]:
        return candle.marks(self.setting, LAYOUT)


@contextmanager
def measured_convolutions() -> Iterator[None]:
    """Let cuDNN time its algorithms for each new shape, and take the fastest; the batches have one or two.

    Around the loop over the batches, so that it holds for the backward pass too.
    """
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def plateau(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.ReduceLROnPlateau:
    """A tenth of the rate after ten epochs without progress."""
    # Keras cuts when as many epochs as its patience have passed, torch one later; eps 0 lets the late cuts
    # through.
    return torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.1, patience=9, threshold=1e-4, threshold_mode="abs", cooldown=0, eps=0.0
    )


def filters(scale: float) -> int:
    """128 at full scale; below, so many that the cost of a sample falls with the square of the scale."""
    return max(8, 8 * math.floor(FILTERS * math.sqrt(scale) / 8))


def flat_features(*, genes: int, filters: int) -> int:
    """What is left of the genes when the first dense layer sees them."""
    return (genes - sum(KERNELS) + len(KERNELS)) // POOL * filters


def first_dense_factor(*, genes: int, scale: float) -> float:
    """What the first dense layer's learning rate is multiplied by: 1 at full scale.

    A step moves that layer's output by the learning rate times the squared length of its input, which is as
    long as there are features. The full network has 773,760 and learns mostly there; with fewer, the same
    step needs more.
    """
    if scale >= 1.0:
        return 1.0
    full = flat_features(genes=generate_nt3.GENES, filters=FILTERS)
    return full / flat_features(genes=genes, filters=filters(scale))


def network(*, genes: int, filters: int) -> nn.Module:
    """The layers of the benchmark; 154,922,918 parameters for 60,483 genes and 128 filters."""
    if flat_features(genes=genes, filters=filters) < 1:
        least = sum(KERNELS) - len(KERNELS) + POOL
        raise InputError(f"NT3 needs at least {least} genes, and there are {genes}", cure="raise the scale")
    net = nn.Sequential()
    # The benchmark has a pooling of width 1 after the first convolution: it copies, and is left out.
    net.add_module("conv_1", nn.Conv1d(1, filters, KERNELS[0]))
    net.add_module("relu_1", nn.ReLU())
    net.add_module("conv_2", nn.Conv1d(filters, filters, KERNELS[1]))
    net.add_module("relu_2", nn.ReLU())
    net.add_module("pool", nn.MaxPool1d(POOL))
    net.add_module("flatten", nn.Flatten())
    net.add_module("dense_1", nn.Linear(flat_features(genes=genes, filters=filters), DENSE[0]))
    net.add_module("relu_3", nn.ReLU())
    net.add_module("dropout_1", nn.Dropout(DROPOUT))
    net.add_module("dense_2", nn.Linear(DENSE[0], DENSE[1]))
    net.add_module("relu_4", nn.ReLU())
    net.add_module("dropout_2", nn.Dropout(DROPOUT))
    net.add_module("dense_3", nn.Linear(DENSE[1], 2))
    for name, parameter in net.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif name == "conv_1.weight":
            # Glorot counts the outputs; narrow copies count those of the full network, so that what flows out
            # of this layer is as large as there. At full width this is Glorot's own bound.
            bound = math.sqrt(6.0 / (KERNELS[0] + KERNELS[0] * FILTERS))
            nn.init.uniform_(parameter, -bound, bound)
        else:
            nn.init.xavier_uniform_(parameter)
    return net
