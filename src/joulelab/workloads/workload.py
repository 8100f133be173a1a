# SPDX-License-Identifier: Apache-2.0
"""What the training loop asks of a workload. The base class is the neutral answer to each question.

A subclass must say how it loads, its model, its optimizer, its batches and its loss; the rest it overrides
where its benchmark differs. The loop owns repeats, epochs, windows, precision, progress and validity; a
workload owns data, model and what is counted as good.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from joulelab.records.parameter import Scalar
    from joulelab.workloads.recipe import Recipe


def _unheard(words: str) -> None:
    del words


def _alone(sums: torch.Tensor) -> torch.Tensor:
    return sums


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Where and with what a workload runs. `rank` of `ranks` says which share of the data is its own."""

    parameters: Mapping[str, Scalar]
    knobs: Mapping[str, Scalar]
    data: Path  # stand-ins are made here once, and found again
    device: torch.device = torch.device("cpu")  # noqa: RUF009  immutable
    dtype: torch.dtype = torch.float32  # of weights and inputs
    rank: int = 0
    ranks: int = 1
    others: tuple[torch.Generator, ...] = ()  # orders of the workers that this process does the work of, too
    add: Callable[[torch.Tensor], torch.Tensor] = _alone  # up over all ranks; each gets the sum
    say: Callable[[str], None] = _unheard  # to whoever waits for the trial, and to its log


def mark(tensor: torch.Tensor) -> int:
    """A number that changes with the content of a small tensor."""
    return zlib.crc32(tensor.cpu().contiguous().numpy().tobytes())


@dataclass(frozen=True)
class Step:
    """What one batch gave: the loss to descend and means over the batch to show, still on the device."""

    loss: torch.Tensor
    samples: int
    metrics: Mapping[str, torch.Tensor] = field(default_factory=dict)


class Workload:
    """One benchmark, made anew for every repeat."""

    recipe: ClassVar[Recipe]  # plug-ins say it here; the built-in ones in workloads/__init__.py
    metrics: ClassVar[tuple[str, ...]] = ()  # the names that every `Step.metrics` holds
    clip: float = 0.0  # the most that the norm of all gradients may be; 0 does not limit it
    notes: tuple[str, ...] = ()  # what a reader of the figures must know of the data, once it is loaded

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def prepare(self) -> None:
        """Make what must be there before anything is measured: a stand-in for missing data."""

    def sources(self) -> str:
        """What is read, names and sizes and no contents: workers on other machines are compared by it."""
        return ""

    def load(self) -> None:
        """From files to what `batches` draws from. This is the phase called load."""

    def model(self) -> torch.nn.Module:
        """A fresh model on the device, drawn from torch's global generator."""
        raise self._silent("model")

    def optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        raise self._silent("optimizer")

    def batches(self, epoch: int, generator: torch.Generator) -> Iterable[Any]:
        """This rank's training batches of one epoch, counted from 1, in an order drawn from `generator`."""
        raise self._silent("batches")

    def place(self, batch: Any) -> Any:
        """What `batches` gave, as `loss` wants it: on the device, augmented there.

        The time in `batches` counts as waiting for data; what the device is told to do with them does not,
        and belongs here.
        """
        return batch

    def loss(self, model: torch.nn.Module, batch: Any) -> Step:
        """The forward pass of one training batch. Called under autocast, with the model in training mode."""
        raise self._silent("loss")

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Figures on held-out data, such as val_loss. Called without gradients, in evaluation mode."""
        del model
        return {}

    def infer(self, model: torch.nn.Module) -> int:
        """One pass over the held-out data, and how many samples that were. Called as `evaluate` is."""
        raise self._silent("infer")

    def on_step_end(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, step: int) -> None:
        """After every optimizer step, counted from 1 over all epochs: schedules by step, averaged weights."""

    def on_epoch_end(self, metrics: Mapping[str, float], optimizer: torch.optim.Optimizer) -> bool:
        """After every evaluation: schedules by epoch. True ends the training, its target being reached."""
        del metrics, optimizer
        return False

    def state(self) -> dict[str, Any]:
        """What it has learnt or counted by this step, for a checkpoint: tensors, numbers, text, lists, dicts.

        Asked for between two batches. What `batches` itself moves on is given as it was when the epoch began:
        after a restart the epoch's batches are drawn again, and those that were done are left out.
        """
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave. The data are loaded, model and optimizer are made."""

    def marks(self) -> dict[str, tuple[int, int]]:
        """Of each part of the loaded data, by name, its size and a stamp that changes with the content."""
        return {}

    def _silent(self, what: str) -> TypeError:
        return TypeError(f"workload {type(self).__name__} does not define {what}(), which the loop needs")
