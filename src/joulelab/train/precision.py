# SPDX-License-Identifier: Apache-2.0
"""How the loop computes: formats, autocast, and the optimizer step with or without loss scaling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import torch
from torch import nn

from joulelab.errors import TrialError, unknown
from joulelab.train import fp8
from joulelab.train.rate import Rate, gradients
from joulelab.train.trace import Trace


class Precision:
    """Everything in one format, every step taken: fp32, and fp32 rounded to TF32 where the knob allows it."""

    dtype: ClassVar[torch.dtype] = torch.float32  # of weights and inputs
    notes: tuple[str, ...] = ()  # what a reader of the figures must know, once a model has been fitted

    def __init__(self, device: torch.device, *, accumulate: int = 1, clip: float = 0.0) -> None:
        self.device = device
        self.rate = Rate()
        self.trace = Trace()
        self.average: Callable[[Sequence[torch.Tensor]], None] = _nothing
        self.accumulate = accumulate  # batches to an optimizer step
        self.clip = clip  # the most that the norm of all gradients may be; 0 does not limit it
        self.attempted = 0  # optimizer steps begun
        self.taken = 0
        self._held = 0  # batches whose gradients wait for the others of their step

    def watch(self, optimizer: torch.optim.Optimizer) -> None:
        """Count the steps that the optimizer really takes. Call once, before the first step."""
        optimizer.register_step_post_hook(self._count)

    def fit(self, model: nn.Module) -> None:
        """Change the layers of `model` that compute in another way; parameters stay what they are."""

    def autocast(self) -> AbstractContextManager[object]:
        return nullcontext()

    @property
    def completes(self) -> bool:
        """Whether the coming batch is the last of an optimizer step."""
        return self._held + 1 == self.accumulate

    def step(self, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> bool:
        """One batch: gradients from its loss; with the last batch of a step, moved weights. True: moved."""
        if not self._held:
            self.attempted += 1
        self._held += 1
        self._backward(loss if self.accumulate == 1 else loss / self.accumulate)
        self.trace.mark("backward")
        self.rate.backward(optimizer, of=self.accumulate)
        if self._held < self.accumulate:
            return False
        self._move(optimizer)
        return True

    def end_epoch(self, optimizer: torch.optim.Optimizer) -> bool:
        """The step of the batches that were left over when the epoch ended. True: there were some."""
        if not self._held:
            return False
        # They were divided by the number of batches that a full step has, and belong to this worker alone.
        torch._foreach_mul_(gradients(optimizer), self.accumulate / self._held)
        self.average(gradients(optimizer))
        self._move(optimizer)
        return True

    def _backward(self, loss: torch.Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]

    def _move(self, optimizer: torch.optim.Optimizer) -> None:
        self._held = 0
        self.rate.ready(optimizer)
        if self.clip:
            self._unscale(optimizer)
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            torch.nn.utils.clip_grad_norm_(parameters, self.clip)
        self._step(optimizer)
        optimizer.zero_grad(set_to_none=True)

    def _unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Give the gradients their true size."""

    def _step(self, optimizer: torch.optim.Optimizer) -> None:
        optimizer.step()

    @property
    def skipped(self) -> int:
        return self.attempted - self.taken

    @property
    def between_steps(self) -> bool:
        """Whether no batch waits for others of its step: only then are there no gradients to keep."""
        return not self._held

    def state(self) -> dict[str, Any]:
        """For a checkpoint, asked for between two steps."""
        return {"attempted": self.attempted, "taken": self.taken}

    def restore(self, state: dict[str, Any]) -> None:
        self.attempted, self.taken = int(state["attempted"]), int(state["taken"])

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
        self,
        device: torch.device,
        *,
        accumulate: int = 1,
        clip: float = 0.0,
        first_scale: float = 2.0**16,
        growth_interval: int = 2000,
    ) -> None:
        super().__init__(device, accumulate=accumulate, clip=clip)
        self.growth_interval = growth_interval
        self.first_scale = first_scale
        self.scaler = torch.amp.GradScaler(
            device.type, init_scale=first_scale, growth_interval=growth_interval
        )

    def watch(self, optimizer: torch.optim.Optimizer) -> None:
        # A fused optimizer takes the scaler's verdict into its kernel: its step returns as if taken when it
        # was not, and its momentum has been seen to advance on overflow until everything was NaN. Skipped
        # steps are cheap, so such a run looks thrifty. It is refused.
        fused = any(group.get("fused") for group in optimizer.param_groups)
        # Optimizers of other libraries that do the same say so to the scaler.
        if fused or getattr(optimizer, "_step_supports_amp_scaling", False):
            name = type(optimizer).__name__ + "(fused=True)" * fused
            raise TrialError(
                f"{name} under fp16 loss scaling hides skipped steps",
                cure="make the optimizer with foreach=True, or train in bf16",
            )
        super().watch(optimizer)

    def autocast(self) -> AbstractContextManager[object]:
        return torch.autocast(self.device.type, torch.float16)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "scaler": self.scaler.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.scaler.load_state_dict(state["scaler"])

    def _backward(self, loss: torch.Tensor) -> None:
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def _unscale(self, optimizer: torch.optim.Optimizer) -> None:
        self.scaler.unscale_(optimizer)

    def _step(self, optimizer: torch.optim.Optimizer) -> None:
        self.scaler.step(optimizer)
        self.scaler.update()

    def _tolerated(self) -> int:
        halvings = max(0, int(self.first_scale).bit_length() - 1)
        return halvings + self.attempted // self.growth_interval


class Fp8(Bf16):
    """Products of linear layers in eight bits; everything else as in bf16."""

    def fit(self, model: nn.Module) -> None:
        if not fp8.fitted(model):
            widths = f"widths that are multiples of {fp8.MULTIPLE}"
            self.notes = (f"precision fp8: no linear layer has {widths}, so this was bf16",)


PRECISIONS: dict[str, type[Precision]] = {
    "fp64": Fp64,
    "fp32": Precision,
    "tf32": Precision,
    "bf16": Bf16,
    "fp16": Fp16,
    "fp8": Fp8,
}


def precision(name: str, *, device: torch.device, accumulate: int = 1, clip: float = 0.0) -> Precision:
    if name not in PRECISIONS:
        raise unknown("precision", name, PRECISIONS)
    return PRECISIONS[name](device, accumulate=accumulate, clip=clip)


def _nothing(gradients: Sequence[torch.Tensor]) -> None:
    del gradients
