# SPDX-License-Identifier: Apache-2.0
"""Losses and metrics of the steps of one epoch, kept on the device and fetched seldom.

Asking a GPU for one number waits for all it was told to do. So every step leaves its figures in a row of a
table there, and the table is fetched when it is full and at the end of the epoch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from joulelab.workloads.workload import Step

ROWS = 64  # steps between two fetches: the most that may follow a loss that is not finite


class Tape:
    def __init__(
        self, names: tuple[str, ...], *, device: torch.device, dtype: torch.dtype, rows: int = ROWS
    ) -> None:
        self.names = ("loss", *names)
        self.samples = 0  # over all epochs
        self.steps = 0
        self._rows = torch.zeros(rows, len(self.names), device=device, dtype=dtype)
        self._weights: list[int] = []  # samples of the rows not yet fetched
        self._begin()

    def _begin(self) -> None:
        self._sums = [0.0] * len(self.names)
        self._seen = 0

    def put(self, step: Step) -> str:
        """Note one step. Now and then this fetches; then it returns what is wrong, in words, or nothing."""
        row = self._rows[len(self._weights)]
        row[0].copy_(step.loss.detach())
        for column, name in enumerate(self.names[1:], start=1):
            row[column].copy_(step.metrics[name].detach())
        self._weights.append(step.samples)
        return self._fetch() if len(self._weights) == len(self._rows) else ""

    def _fetch(self) -> str:
        rows = self._rows[: len(self._weights)].tolist()
        weights, self._weights = self._weights, []
        for row, weight in zip(rows, weights, strict=True):
            self.steps += 1
            self.samples += weight
            if not math.isfinite(row[0]):
                return f"the loss was {row[0]} at step {self.steps}"
            self._seen += weight
            self._sums = [total + weight * value for total, value in zip(self._sums, row, strict=True)]
        return ""

    def end_epoch(self) -> tuple[dict[str, float], str]:
        """The means over the epoch's samples, and what is wrong; the next epoch begins."""
        wrong = self._fetch()
        means = (
            {name: total / self._seen for name, total in zip(self.names, self._sums, strict=True)}
            if self._seen
            else {}
        )
        self._begin()
        return means, wrong
