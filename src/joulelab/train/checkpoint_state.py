# SPDX-License-Identifier: Apache-2.0
"""What a training is made of at a step: gathered, copied off the device, and put back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from joulelab.train.job import Phases, Window
    from joulelab.train.precision import Precision
    from joulelab.train.tape import Tape
    from joulelab.train.waiting import Waiting
    from joulelab.workloads.workload import Workload

State = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Everything of a repeat that a step may change, and the windows that say what it has cost."""

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    workload: Workload
    precision: Precision
    tape: Tape
    waiting: Waiting
    orders: tuple[torch.Generator, ...]  # of this worker, and of those that it does the work of
    whole: Window
    phases: Phases


def shared(parts: Parts) -> State:
    """What is the same on all ranks: the first one writes it."""
    return {
        "model": dict(parts.model.state_dict()),
        "optimizer": parts.optimizer.state_dict(),
        "precision": parts.precision.state(),
        "rate": parts.precision.rate.state(),
    }


def own(parts: Parts) -> State:
    """What each rank has for itself."""
    return {
        "workload": parts.workload.state(),
        "tape": parts.tape.state(),
        "waiting_s": parts.waiting.time_s,
        "random": torch.get_rng_state(),
        "random_cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def put_back(parts: Parts, *, of_all: State, of_rank: State) -> None:
    """All but the states of the random generators, which what follows may still draw from."""
    parts.model.load_state_dict(of_all["model"])
    parts.optimizer.load_state_dict(of_all["optimizer"])
    parts.precision.restore(of_all["precision"])
    parts.precision.rate.restore(of_all["rate"])
    parts.workload.restore(of_rank["workload"])
    parts.tape.restore(of_rank["tape"])
    parts.waiting.restore(of_rank["waiting_s"])


def put_back_random(of_rank: State) -> None:
    torch.set_rng_state(of_rank["random"])
    for number, state in enumerate(of_rank["random_cuda"]):
        # Fewer devices than there were: what is left of them goes on as it was.
        if number < torch.cuda.device_count():
            torch.cuda.set_rng_state(state, number)


class Copies:
    """Memory of the host into which a state is copied, time after time the same.

    New memory is slow to write to: the kernel hands it out page by page.
    """

    def __init__(self) -> None:
        self._of: dict[str, torch.Tensor] = {}

    def take(self, state: Any) -> Any:
        """The same state with every tensor copied; on return the device has done its part."""
        copied = self._copy(state, path="")
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return copied

    def _copy(self, value: Any, *, path: str) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value.detach(), path=path)
        if isinstance(value, dict):
            return {key: self._copy(each, path=f"{path}/{key!r}") for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._copy(each, path=f"{path}/{n}") for n, each in enumerate(value)]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        # A loader that runs nothing would refuse it, when it is too late to say so.
        raise TypeError(f"{path} is of {type(value).__name__}: a state holds tensors, numbers and text")

    def _tensor(self, tensor: torch.Tensor, *, path: str) -> torch.Tensor:
        kept = self._of.get(path)
        alike = kept is not None and (kept.shape, kept.dtype, kept.stride()) == (
            tensor.shape,
            tensor.dtype,
            tensor.stride(),
        )
        if kept is None or not alike:
            # Pinned, so that the device copies while this thread goes on to the next tensor.
            kept = self._of[path] = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
        return kept.copy_(tensor, non_blocking=tensor.is_cuda)
