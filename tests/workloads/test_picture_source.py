# SPDX-License-Identifier: Apache-2.0
"""A batch is the same whether its table lies on the device or is sent there; no thread is left behind."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import torch

from joulelab.workloads.picture_source import AHEAD, Batch, Source, Streamed, source_for

CPU = torch.device("cpu")
KINDS = [Source, Streamed]


def table(count: int = 11) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    pictures = torch.randint(0, 256, (count, 4, 4, 3), dtype=torch.uint8, generator=generator)
    return pictures, torch.arange(count) * 10


def senders() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if "_send" in t.name and t.is_alive()]


def given(batch: Batch) -> tuple[list[int], torch.Tensor, slice]:
    return batch.labels.tolist(), batch.pictures[batch.rows], batch.part


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_the_rows_in_their_order(kind: type[Source]) -> None:
    pictures, labels = table()
    order = torch.tensor([7, 3, 3, 0, 10])
    source = kind(pictures, labels, device=CPU)
    assert len(source) == 11
    # They are kept until the end, while others are sent after them.
    found = [given(batch) for batch in list(source.batches(order, 2))]
    assert [labels for labels, _, _ in found] == [[70, 30], [30, 0], [100]]
    assert [part for _, _, part in found] == [slice(0, 2), slice(2, 4), slice(4, 5)]
    for (_, seen, part), wanted in zip(found, ([7, 3], [3, 0], [10]), strict=True):
        assert torch.equal(seen, pictures[wanted]), part


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_a_picture_are_passed_over_and_nothing_is_copied_for_it(kind: type[Source]) -> None:
    pictures, labels = table()
    source = kind(pictures, labels, rows=torch.tensor([0, 2, 9, 10]), device=CPU)
    assert len(source) == 4
    assert source._table.data_ptr() == pictures.data_ptr()
    found = [given(batch) for batch in source.batches(torch.tensor([3, 0, 2]), 2)]
    assert [labels for labels, _, _ in found] == [[100, 0], [90]]
    assert torch.equal(torch.cat([seen for _, seen, _ in found]), pictures[[10, 0, 9]])


def test_more_batches_than_there_are_buffers() -> None:
    pictures, labels = table(200)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(1))
    here, sent = (list(kind(pictures, labels, device=CPU).batches(order, 7)) for kind in KINDS)
    assert len(here) == len(sent) == 29 > 2 * (AHEAD + 2)
    for one, other in zip(here, sent, strict=True):
        assert one.part == other.part
        assert torch.equal(one.labels, other.labels)
        assert torch.equal(one.pictures[one.rows], other.pictures[other.rows])
    assert not senders()


def test_who_stops_early_leaves_no_thread() -> None:
    pictures, labels = table(200)
    batches = Streamed(pictures, labels, device=CPU).batches(torch.arange(200), 2)
    next(batches)
    assert len(senders()) == 1
    batches.close()  # type: ignore[attr-defined]
    assert not senders()
    gone = Streamed(pictures, labels, device=CPU).batches(torch.arange(200), 2)
    next(gone)
    del gone
    until = time.monotonic() + 5
    while senders() and time.monotonic() < until:
        time.sleep(0.01)  # the generator is closed when its last reference has gone
    assert not senders()


@pytest.mark.parametrize("kind", KINDS)
def test_no_picture_is_no_batch(kind: type[Source]) -> None:
    assert list(kind(*table(), device=CPU).batches(torch.arange(0), 2)) == []
    assert not senders()


def test_an_error_in_the_thread_is_raised_where_the_batch_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    real, count = torch.index_select, 0

    def failing(*arguments: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        if count == 4:
            raise OSError("the disk is gone")
        return real(*arguments, **more)

    monkeypatch.setattr(torch, "index_select", failing)
    seen: list[Any] = []
    batches = Streamed(*table(40), device=CPU).batches(torch.arange(40), 4)
    with pytest.raises(OSError, match="the disk is gone"):
        seen.extend(batch.labels[0].item() for batch in batches)
    assert seen == [0, 40, 80], "those before it are given out"
    assert not senders()


def test_only_a_few_batches_are_made_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    real, made = torch.index_select, []

    def counted(*arguments: Any, **more: Any) -> Any:
        made.append(1)
        return real(*arguments, **more)

    monkeypatch.setattr(torch, "index_select", counted)
    batches = Streamed(*table(200), device=CPU).batches(torch.arange(200), 2)
    next(batches)
    until = time.monotonic() + 0.3
    while time.monotonic() < until and len(made) < 50:
        time.sleep(0.01)
    assert len(made) <= AHEAD + 2, "one is in use, some wait, one waits to be put"
    batches.close()  # type: ignore[attr-defined]


def test_where_there_is_no_device_the_table_is_used_as_it_is() -> None:
    pictures, labels = table()
    source = source_for(pictures, labels, rows=torch.arange(3), device=CPU)
    assert type(source) is Source
    assert len(source) == 3


@pytest.mark.parametrize(("free", "kind"), [(10_000, Source), (1_000, Streamed)])
def test_a_table_that_would_take_too_much_of_the_device_is_streamed(
    monkeypatch: pytest.MonkeyPatch, free: int, kind: type[Source]
) -> None:
    pictures, labels = table()  # 528 bytes
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 10 * free))
    monkeypatch.setattr(Source, "__init__", lambda self, *given, **more: None)
    found = source_for(pictures, labels, rows=torch.arange(11), device=torch.device("cuda"))
    assert type(found) is kind
