# SPDX-License-Identifier: Apache-2.0
"""The batch that fits is found by trying, and what was tried is given back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from joulelab.train.fitting import fitting, ran_out
from tests.train.train_parts import TooBig, TooBigForFour, Toy, job

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (torch.OutOfMemoryError("CUDA"), True),
        (RuntimeError("shapes differ"), False),
        (ValueError("can't allocate memory"), False),
    ],
)
def test_out_of_memory_comes_in_several_forms(error: Exception, is_memory: bool) -> None:  # noqa: FBT001
    assert ran_out(error) == is_memory


def test_halves_until_two_steps_are_possible() -> None:
    assert fitting(job(TooBigForFour, batch_size=32)) == 2
    assert fitting(job(TooBig, batch_size=32)) == 0


def test_two_steps_are_taken_because_the_first_has_no_momentum_yet() -> None:
    class Counting(Toy):
        def batches(self, epoch: int, generator: torch.Generator) -> Iterator[Any]:
            for batch in super().batches(epoch, generator):
                seen.append(len(batch[1]))
                yield batch

    seen: list[int] = []
    assert fitting(job(Counting, batch_size=16)) == 8
    assert seen[:2] == [8, 8]
    assert len(seen) <= 3


def test_another_error_or_too_little_time_gives_no_answer() -> None:
    class Picky(Toy):
        def load(self) -> None:
            raise ValueError("batches of at least 16, please")

    assert fitting(job(Picky, batch_size=16)) is None
    assert fitting(job(TooBigForFour, batch_size=32), limit_s=0.0) is None
