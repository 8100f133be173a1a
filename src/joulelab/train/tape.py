# SPDX-License-Identifier: Apache-2.0
"""Losses and metrics of the batches of one epoch, kept on the device and fetched seldom.

Asking a GPU for one number waits for all it was told to do. So the figures of a batch stay where they are, a
number each, and are put together and fetched when there are many of them and at the end of the epoch. Until
then a batch costs the device nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from joulelab.train.ranks import Ranks

if TYPE_CHECKING:
    from joulelab.workloads.workload import Step

ROWS = 64  # batches between two fetches: the most that may follow a loss that is not finite


class Tape:
    def __init__(
        self,
        names: tuple[str, ...],
        *,
        dtype: torch.dtype,
        ranks: Ranks | None = None,
        rows: int = ROWS,
        device: torch.device | str = "cpu",
    ) -> None:
        self._ranks = ranks or Ranks()
        self.names = ("loss", *names)
        self.samples = 0  # over all epochs
        self._dtype = dtype
        self._device = device  # where the losses are
        self._most = rows
        self._figures: list[torch.Tensor] = []  # of the batches not yet fetched, one after the other
        self._batches: list[tuple[int, int]] = []  # samples of each, and the optimizer step it belonged to
        self._begin()

    def _begin(self) -> None:
        self._sums = [0.0] * len(self.names)
        self._seen = 0

    def put(self, batch: Step, *, step: int) -> str:
        """Note one batch. Now and then this fetches; then it returns what is wrong, in words, or nothing."""
        self._figures.append(batch.loss.detach())
        for name in self.names[1:]:
            self._figures.append(batch.metrics[name].detach())
        self._batches.append((batch.samples, step))
        # All ranks take as many steps: what one of them finds ends the training of all at the same one.
        return self._agreed(self._fetch()) if len(self._batches) == self._most else ""

    def _agreed(self, wrong: str) -> str:
        found = self._ranks.any(bool(wrong))
        return wrong or ("another worker's loss was not finite" if found else "")

    def _fetch(self) -> str:
        figures, self._figures = self._figures, []
        batches, self._batches = self._batches, []
        if not batches:
            return ""
        width = len(self.names)
        values = torch.stack([figure.to(self._dtype) for figure in figures]).tolist()
        for row, (samples, step) in enumerate(batches):
            of_batch = values[row * width : (row + 1) * width]
            self.samples += samples
            if not math.isfinite(of_batch[0]):
                return f"the loss was {of_batch[0]} at step {step}"
            self._seen += samples
            self._sums = [total + samples * value for total, value in zip(self._sums, of_batch, strict=True)]
        return ""

    def state(self) -> dict[str, Any]:
        """For a checkpoint: the sums, and the figures that are still on the device."""
        rows = [figure.to(self._dtype) for figure in self._figures]
        return {
            "sums": self._sums,
            "seen": self._seen,
            "samples": self.samples,
            "batches": self._batches,
            "figures": torch.stack(rows) if rows else None,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._sums, self._seen, self.samples = list(state["sums"]), state["seen"], state["samples"]
        self._batches = [(samples, step) for samples, step in state["batches"]]
        # Those that follow are on the device, and all are put together there.
        figures = state["figures"]
        self._figures = [] if figures is None else list(figures.to(self._device))

    def _summed(self) -> list[float]:
        """The sums over this epoch, and the number of samples last, of all ranks together."""
        own = [*self._sums, float(self._seen)]
        if self._ranks.count == 1:
            return own
        return self._ranks.add(torch.tensor(own, dtype=torch.float64, device=self._device)).tolist()

    def end_epoch(self) -> tuple[dict[str, float], str]:
        """The means over the epoch's samples, and what is wrong; the next epoch begins."""
        wrong = self._agreed(self._fetch())
        *sums, seen = self._summed()
        means = {name: total / seen for name, total in zip(self.names, sums, strict=True)} if seen else {}
        self._begin()
        return means, wrong
