# SPDX-License-Identifier: Apache-2.0
"""Which rows a worker gets: every one is shown, as often to each, and in orders that can be told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from joulelab.workloads import share
from joulelab.workloads.workload import Setting


def setting(**given: Any) -> Setting:
    sharing = given.pop("sharing", "shard")
    return Setting(parameters={}, knobs={"sharing": sharing}, data=Path(), **given)


def drawn(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_rows_go_to_the_device_at_once_each_one_once() -> None:
    batches = list(share.batches(10, 4, drawn(0), setting()))
    assert [len(rows) for rows in batches] == [4, 4, 2]
    assert sorted(torch.cat(batches).tolist()) == list(range(10))
    assert len({rows.untyped_storage().data_ptr() for rows in batches}) == 1, "slices of one tensor"


@pytest.mark.parametrize(("count", "ranks"), [(12, 3), (10, 3), (7, 4), (2, 5)])
def test_dealt_out_rows_are_all_shown_and_as_many_to_each(count: int, ranks: int) -> None:
    orders = [share.order(count, drawn(1), setting(rank=r, ranks=ranks)) for r in range(ranks)]
    assert {len(rows) for rows in orders} == {share.own_count(count, setting(ranks=ranks))}
    shown = torch.cat(orders).tolist()
    assert set(shown) == set(range(count))
    assert len(shown) - count < ranks, "no more are shown twice than come out uneven"


def test_the_batches_of_all_workers_are_those_of_one_with_a_batch_as_large() -> None:
    alone = list(share.batches(24, 6, drawn(2), setting()))
    both = [list(share.batches(24, 3, drawn(2), setting(rank=r, ranks=2))) for r in range(2)]
    for whole, *parts in zip(alone, *both, strict=True):
        assert sorted(whole.tolist()) == sorted(torch.cat(parts).tolist())


@pytest.mark.parametrize("sharing", ["partition", "whole"])
def test_undealt_rows_are_all_shown_to_every_worker(sharing: str) -> None:
    rows = share.order(9, drawn(3), setting(sharing=sharing, rank=1, ranks=2))
    assert sorted(rows.tolist()) == list(range(9))
    assert share.own_count(9, setting(sharing=sharing, ranks=2)) == 9
    assert share.held_out(9, setting(sharing=sharing, rank=1, ranks=2)) == slice(0, 9)


def test_emulated_workers_take_turns_with_the_batches_that_workers_would_have() -> None:
    alone = [list(share.batches(7, 3, drawn(seed), setting(sharing="partition"))) for seed in (4, 5)]
    turns = list(share.batches(7, 3, drawn(4), setting(sharing="partition", others=(drawn(5),))))
    wanted = [rows for both in zip(*alone, strict=True) for rows in both]
    assert [rows.tolist() for rows in turns] == [rows.tolist() for rows in wanted]


def test_emulated_workers_among_whom_rows_are_dealt() -> None:
    real = [list(share.batches(7, 2, drawn(6), setting(rank=r, ranks=2))) for r in range(2)]
    turns = list(share.batches(7, 2, drawn(6), setting(others=(drawn(0),))))
    wanted = [rows for both in zip(*real, strict=True) for rows in both]
    assert [rows.tolist() for rows in turns] == [rows.tolist() for rows in wanted]


def test_held_out_rows_are_looked_at_once_and_added_up() -> None:
    parts = [torch.arange(10)[share.held_out(10, setting(rank=r, ranks=3))] for r in range(3)]
    assert sorted(torch.cat(parts).tolist()) == list(range(10))
    sums = torch.tensor([1.0])
    doubled = setting(ranks=2, add=lambda x: x * 2)
    assert share.added(sums, doubled).item() == 2.0
    assert share.added(sums, setting(sharing="whole", ranks=2, add=lambda x: x * 2)).item() == 1.0
