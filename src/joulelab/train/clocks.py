# SPDX-License-Identifier: Apache-2.0
"""How far this clock is from that of the first worker: a ball goes back and forth, the quickest throw counts.

A clock that is read in the middle of a throw that took t is off by at most t / 2.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
import torch
from torch import distributed

if TYPE_CHECKING:
    from collections.abc import Callable

THROWS = 20


class Offset(msgspec.Struct, frozen=True):
    """What to add to this worker's clock, and how far off that may be; `at_ns` is when, by its own clock."""

    at_ns: int
    offset_ns: int
    error_ns: int


def offset(
    rank: int,
    leaders: list[int],
    group: distributed.ProcessGroup | None,
    clock: Callable[[], int] = time.monotonic_ns,
) -> Offset:
    """Called by the first of the workers of each machine, `leaders`, and by no other."""
    own = Offset(at_ns=clock(), offset_ns=0, error_ns=0)
    for other in leaders:
        if other == leaders[0]:
            continue
        if rank == leaders[0]:
            _catch(other, group, clock)
        elif rank == other:
            own = _throw(leaders[0], group, clock)
    return own


def _catch(other: int, group: distributed.ProcessGroup | None, clock: Callable[[], int]) -> None:
    ball = torch.zeros(1, dtype=torch.int64)
    for _ in range(THROWS):
        distributed.recv(ball, other, group=group)
        ball[0] = clock()
        distributed.send(ball, other, group=group)


def _throw(first: int, group: distributed.ProcessGroup | None, clock: Callable[[], int]) -> Offset:
    ball = torch.zeros(1, dtype=torch.int64)
    found = []
    for _ in range(THROWS):
        thrown_ns = clock()
        distributed.send(ball, first, group=group)
        distributed.recv(ball, first, group=group)
        took_ns = clock() - thrown_ns
        middle_ns = thrown_ns + took_ns // 2
        found.append(Offset(at_ns=middle_ns, offset_ns=int(ball.item()) - middle_ns, error_ns=took_ns // 2))
    return min(found, key=lambda each: each.error_ns)
