# SPDX-License-Identifier: Apache-2.0
"""What the loop asks of workers that train together. The base class is the answer of one that is alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from joulelab.train.clocks import Offset
from joulelab.train.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch
    from torch import nn

_APART = 1_000_003  # between the seeds of two ranks: further than anybody counts repeats


class Ranks:
    """One process of `count`. Every method but `seed` is called by all of them, in the same order."""

    rank = 0
    count = 1
    local_rank = 0
    hosts: tuple[str, ...] = ()  # of all ranks, where there are several

    def __init__(self) -> None:
        self.trace = Trace()

    def seed(self, seed: int) -> int:
        """What this rank draws from where ranks must differ; the first draws as one that is alone."""
        return apart(seed, self.rank)

    def add(self, sums: torch.Tensor) -> torch.Tensor:
        """The sum over all ranks, the same bits for each."""
        return sums

    def any(self, flag: bool) -> bool:  # noqa: FBT001  a question has one argument
        return flag

    def same(self, figures: Mapping[str, float]) -> dict[str, float]:
        """The first rank's figures: what is decided by them is decided alike."""
        return dict(figures)

    def texts(self, text: str) -> list[str]:
        """What each rank said, in their order."""
        return [text]

    def spread(self, model: nn.Module) -> None:
        """From here on a backward pass leaves the mean of all gradients. The first's weights hold for all."""

    def listen(self, hear: Callable[[torch.Tensor], None]) -> None:
        """`hear` is given each piece of this rank's own gradient before it is averaged. After `spread`."""

    def last_of_step(self, last: bool) -> None:  # noqa: FBT001  as above
        """Whether the coming batch completes an optimizer step: gradients need not be averaged before."""

    def average(self, gradients: Sequence[torch.Tensor]) -> None:
        """The mean over all ranks, in place, of gradients that `spread` did not average."""

    def clock(self) -> Offset:
        """How far this machine's clock is from that of the first worker's."""
        return Offset(at_ns=0, offset_ns=0, error_ns=0)

    def release(self, model: nn.Module) -> None:
        """`model` is called no more."""


def apart(seed: int, rank: int) -> int:
    return (seed + _APART * rank) % 2**63
