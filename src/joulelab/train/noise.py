# SPDX-License-Identifier: Apache-2.0
"""How much the gradients of the workers differ, and what the learning rate gains from averaging them.

A mean over N workers has an N-th of their noise and all of their signal. With r the noise of one worker's
gradient over the signal, both squared, the step may grow by (1 + r) / (1 + r / N): by N where all is noise,
not at all where there is none. McCandlish et al. 2018 call r times the batch the noise scale; the gain is
that of AdaScale (Johnson et al. 2020). Both are found from the squared lengths of gradients before and after
they are averaged.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from joulelab.train.rate import Multiplied, gradients

if TYPE_CHECKING:
    from joulelab.train.ranks import Ranks

KEPT = 0.95  # of the mean so far, in each step: a training changes over hundreds of steps


class Noise(Multiplied):
    """`workers` in all, each of which takes batches of `batch_size`; `turns` of them are emulated here."""

    def __init__(self, *, workers: int, batch_size: int, turns: int) -> None:
        super().__init__()
        self.gain = 1.0  # of the last step
        self.progress = 0.0  # steps of one worker that the steps so far are worth
        self.noise_scale = math.nan  # in samples
        self._workers, self._batch_size, self._turns = workers, batch_size, turns
        self._ranks: Ranks | None = None
        self._small: torch.Tensor | None = None  # squared lengths before averaging, added up
        self._held: list[torch.Tensor] = []
        self._means: torch.Tensor | None = None  # of noise and signal, and the weight that they have
        self._known: torch.Tensor | None = None

    def watch(self, optimizer: torch.optim.Optimizer, *, ranks: Ranks) -> None:
        super().watch(optimizer, ranks=ranks)
        self._ranks = ranks
        ranks.listen(self._hear)

    def _hear(self, gradient: torch.Tensor) -> None:
        """A piece of this worker's own gradient, before it is averaged."""
        square = gradient.detach().square().sum()
        self._small = square if self._small is None else self._small + square

    def backward(self, optimizer: torch.optim.Optimizer, *, of: int) -> None:
        if self._turns == 1:
            return
        # Emulated workers add to one gradient in turn: the difference is what this one added.
        now = gradients(optimizer)
        added = [a - b for a, b in zip(now, self._held, strict=True)] if self._held else now
        for piece in added:
            self._hear(piece * of)
        self._held = [g.clone() for g in now]

    def ready(self, optimizer: torch.optim.Optimizer) -> None:
        if self._small is None or self._ranks is None:
            return
        # Read now, one step late: by now it has been worked out, and nobody waits for the device.
        self._read()
        small = self._ranks.add(self._small) / self._workers
        lengths = torch.stack([g.norm() for g in gradients(optimizer)])
        self._note(small.double(), lengths.double().square().sum())
        self._small, self._held = None, []

    def _note(self, small: torch.Tensor, large: torch.Tensor) -> None:
        n = self._workers
        noise, signal = (small - large) / (1.0 - 1.0 / n), (n * large - small) / (n - 1.0)
        fresh = torch.stack([noise, signal, torch.ones_like(noise)])
        means = torch.zeros_like(fresh) if self._means is None else self._means.to(fresh.device)
        # A step that overflowed says nothing; decided on the device, which nobody waits for.
        self._means = torch.where(fresh.isfinite().all(), KEPT * means + (1.0 - KEPT) * fresh, means)
        self._known = self._means

    def _read(self) -> None:
        if self._known is None:
            return
        noise, signal, weight = self._known.tolist()
        if not weight:
            return
        ratio = noise / signal if signal > 0.0 else math.inf
        self.noise_scale = ratio * self._batch_size
        self.gain = gain(ratio, self._workers)

    def state(self) -> dict[str, Any]:
        known = (self.gain, self.progress, self.noise_scale)
        return {"known": list(known), "means": self._means}

    def restore(self, state: dict[str, Any]) -> None:
        self.gain, self.progress, self.noise_scale = state["known"]
        self._means = self._known = state["means"]

    def factor(self) -> float:
        self.progress += self.gain
        return self.gain

    def figures(self) -> dict[str, float]:
        found = {"rate_gain": self.gain, "progress_steps": self.progress}
        return found | ({"noise_scale": self.noise_scale} if math.isfinite(self.noise_scale) else {})


def gain(ratio: float, workers: int) -> float:
    """Between 1 and the number of workers."""
    if ratio <= 0.0:
        return 1.0
    if ratio == math.inf:
        return float(workers)
    return (1.0 + ratio) / (1.0 + ratio / workers)
