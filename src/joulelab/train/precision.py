# SPDX-License-Identifier: Apache-2.0
"""How the loop computes: formats, autocast, and the optimizer step with or without loss scaling."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

import torch

from joulelab.errors import TrialError, unknown


class Precision:
    """Everything in one format, every step taken: fp32, and fp32 rounded to TF32 where the knob allows it."""

    dtype: ClassVar[torch.dtype] = torch.float32  # of weights and inputs

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.attempted = 0
        self.taken = 0

    def watch(self, optimizer: torch.optim.Optimizer) -> None:
        """Count the steps that the optimizer really takes. Call once, before the first step."""
        optimizer.register_step_post_hook(self._count)

    def autocast(self) -> AbstractContextManager[object]:
        return nullcontext()

    def step(self, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
        """From the loss to moved weights, gradients cleared."""
        self.attempted += 1
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    @property
    def skipped(self) -> int:
        return self.attempted - self.taken

    def complaint(self, *, finished: bool) -> str:
        """Why the steps skipped so far make the run worthless; empty while they belong to the method."""
        tolerated = self._tolerated()
        if self.skipped > tolerated:
            return f"{self.skipped} of {self.attempted} optimizer steps were skipped, more than {tolerated}"
        # A run may be shorter than the scaler's warm-up: then it has learnt nothing worth its joules.
        if finished and 2 * self.skipped > self.attempted:
            return f"{self.skipped} of {self.attempted} optimizer steps were skipped: most of the run"
        return ""

    def _tolerated(self) -> int:
        return 0

    def _count(self, *_: object) -> None:
        self.taken += 1


class Fp64(Precision):
    dtype: ClassVar[torch.dtype] = torch.float64


class Bf16(Precision):
    """Products in bfloat16, weights in fp32. Its range is that of fp32, so nothing is scaled."""

    def autocast(self) -> AbstractContextManager[object]:
        return torch.autocast(self.device.type, torch.bfloat16)


class Fp16(Precision):
    """Products in fp16, weights in fp32, the loss scaled so that small gradients survive.

    The scaler begins too high on purpose and halves its scale on overflow, skipping that step: that is its
    warm-up, at most one halving for each power of two in the first scale; later it tries a doubling now and
    then.
    """

    def __init__(
        self, device: torch.device, *, first_scale: float = 2.0**16, growth_interval: int = 2000
    ) -> None:
        super().__init__(device)
        self.growth_interval = growth_interval
        self.first_scale = first_scale
        self.scaler = torch.amp.GradScaler(
            device.type, init_scale=first_scale, growth_interval=growth_interval
        )

    def watch(self, optimizer: torch.optim.Optimizer) -> None:
        # A fused optimizer takes the scaler's verdict into its kernel: its step returns as if taken when it
        # was not, and its momentum has been seen to advance on overflow until everything was NaN. Skipped
        # steps are cheap, so such a run looks thrifty. It is refused.
        if any(group.get("fused") for group in optimizer.param_groups):
            raise TrialError(
                f"{type(optimizer).__name__}(fused=True) under fp16 loss scaling hides skipped steps",
                cure="make the optimizer with foreach=True, or train in bf16",
            )
        super().watch(optimizer)

    def autocast(self) -> AbstractContextManager[object]:
        return torch.autocast(self.device.type, torch.float16)

    def step(self, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
        self.attempted += 1
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.scaler.step(optimizer)
        self.scaler.update()
        optimizer.zero_grad(set_to_none=True)

    def _tolerated(self) -> int:
        halvings = max(0, int(self.first_scale).bit_length() - 1)
        return halvings + self.attempted // self.growth_interval


PRECISIONS: dict[str, type[Precision]] = {
    "fp64": Fp64,
    "fp32": Precision,
    "tf32": Precision,
    "bf16": Bf16,
    "fp16": Fp16,
}


def precision(name: str, *, device: torch.device) -> Precision:
    if name not in PRECISIONS:
        raise unknown("precision", name, PRECISIONS)
    return PRECISIONS[name](device)
