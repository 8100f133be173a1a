# SPDX-License-Identifier: Apache-2.0
"""Which rows are a worker's own, where several train together.

`shard` deals the rows of an epoch out in turn, so that the batches of all workers together are those of one
worker with a batch as large as theirs. `partition` and `whole` show every row to every worker, each in an
order of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from joulelab.workloads.workload import Setting


def deals_rows(setting: Setting) -> bool:
    return setting.knobs.get("sharing", "shard") == "shard"


def own_count(count: int, setting: Setting) -> int:
    """Rows of an epoch for each worker: as many for all, or they would not take as many steps."""
    return -(-count // setting.ranks) if deals_rows(setting) else count


def own(order: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    """Every `ranks`-th row; where they do not come out even, the first few are shown a second time."""
    if len(order) % ranks:
        order = order[torch.arange(-(-len(order) // ranks) * ranks) % len(order)]
    return order[rank::ranks]


def order(count: int, generator: torch.Generator, setting: Setting) -> torch.Tensor:
    """The rows of this worker's next epoch in a new order."""
    drawn = torch.randperm(count, generator=generator)
    return own(drawn, setting.rank, setting.ranks) if deals_rows(setting) else drawn


def batches(count: int, size: int, generator: torch.Generator, setting: Setting) -> Iterator[torch.Tensor]:
    """Row numbers of the batches of one epoch, on the device; the last is kept however small it is.

    They go there at once: a copy for each batch would wait for everything that was queued. Where workers are
    emulated, their batches come in turn, the first of each, then the second of each.
    """
    turns = 1 + len(setting.others)
    if turns == 1:
        orders = [order(count, generator, setting)]
    elif deals_rows(setting):
        drawn = torch.randperm(count, generator=generator)
        orders = [own(drawn, turn, turns) for turn in range(turns)]
    else:
        orders = [torch.randperm(count, generator=each) for each in (generator, *setting.others)]
    parts = [torch.split(rows.to(setting.device), size) for rows in orders]
    for of_all in zip(*parts, strict=True):
        yield from of_all


def held_out(count: int, setting: Setting) -> slice:
    """The held-out rows that this worker looks at: its part of them where rows are dealt out, else all."""
    return slice(setting.rank, None, setting.ranks) if deals_rows(setting) else slice(0, count)


def added(sums: torch.Tensor, setting: Setting) -> torch.Tensor:
    """Sums over the rows of `held_out`, put together."""
    return setting.add(sums) if deals_rows(setting) else sums
