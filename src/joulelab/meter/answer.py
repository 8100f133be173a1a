# SPDX-License-Identifier: Apache-2.0
"""What may be asked of the sampler: one line of JSON each way."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joulelab.meter.book import Entry
from joulelab.meter.client import EXCEPTION, Client

if TYPE_CHECKING:
    from joulelab.meter.sampler import Sampler

Request = dict[str, Any]


def answer(sampler: Sampler, client: Client, request: Request) -> None:
    """Carry out one request; the reply may come later."""
    client.asked = int(request.get("number", 0))
    ANSWERS[request["op"]](sampler, client, request)


def hello(sampler: Sampler, client: Client, request: Request) -> None:
    """A process comes to be measured."""
    ring = Path(request["ring"]) if request["ring"] else None
    client.introduce(pid=request["pid"], ring=ring, rank=request["rank"])
    sampler.met(client)
    sampler.compare(client, request.get("visible"))
    client.greet_later({"pid": os.getpid(), "devices": sampler.describe(), "problems": sampler.problems})


def devices(sampler: Sampler, client: Client, request: Request) -> None:
    """The devices, and what was decided about them meanwhile."""
    del request
    client.reply({"devices": sampler.describe(), "problems": sampler.problems})


def window(sampler: Sampler, client: Client, request: Request) -> None:
    """The figures of a window that has ended."""
    client.drain(sampler.book)
    entry = client.entries.get(request["id"])
    if entry is not None:
        if entry.end_ns is None:
            # The ring was full when it ended; the process itself still knows.
            sampler.book.end(entry, request["end"])
        _later(sampler, client, entry)
        return
    found = sampler.record.find(process=client.pid, number=request["id"])
    if found is not None:
        client.reply(found)
        return
    flags = ["exception"] if request["flags"] & EXCEPTION else []
    _span(sampler, client, request["start"], request["end"], flags=flags)


def windows(sampler: Sampler, client: Client, request: Request) -> None:
    """Many finished windows at once; those that are not there are left out."""
    found = {str(number): sampler.record.find(process=client.pid, number=number) for number in request["ids"]}
    client.reply({"windows": {number: figures for number, figures in found.items() if figures is not None}})


def so_far(sampler: Sampler, client: Client, request: Request) -> None:
    """An open window, as if it ended now."""
    client.drain(sampler.book)
    opened = client.entries.get(request["id"])
    if opened is None:
        _span(sampler, client, request["start"], request["end"], flags=[])
        return
    entry = Entry(opened.start_ns, starts=opened.starts, generation=opened.generation)
    if entry.starts is None:
        sampler.book.start(entry)
    sampler.book.end(entry, request["end"])
    _later(sampler, client, entry)


def between(sampler: Sampler, client: Client, request: Request) -> None:
    """Any span of time."""
    _span(sampler, client, request["start"], request["end"], flags=[])


def flush(sampler: Sampler, client: Client, request: Request) -> None:
    """All windows that have ended are on disk when the reply comes."""
    del request
    sampler.drain()
    now_ns = time.monotonic_ns()
    # Instants are marked in the order of time: when this one is, all earlier ones are.
    barrier = Entry(now_ns, waiters=[lambda _: _flushed(sampler, client)])
    sampler.book.start(barrier)
    sampler.book.end(barrier, now_ns)
    sampler.book.hurry(now_ns, now_ns)


def bye(sampler: Sampler, client: Client, request: Request) -> None:
    """A process leaves; the reply comes when all its windows are written."""
    del request
    now_ns = time.monotonic_ns()
    client.drain_all(sampler.book)
    client.interrupt(sampler.book, now_ns)
    sampler.book.hurry(now_ns, now_ns)
    client.leaving = True


def _flushed(sampler: Sampler, client: Client) -> None:
    sampler.record.power()
    sampler.record.flush()
    client.reply({"ok": True, "fault": sampler.record.fault})


def _span(sampler: Sampler, client: Client, start_ns: int, end_ns: int, *, flags: list[str]) -> None:
    entry = Entry(start_ns, flags=flags)
    sampler.book.start(entry)
    sampler.book.end(entry, end_ns)
    _later(sampler, client, entry)


def _later(sampler: Sampler, client: Client, entry: Entry) -> None:
    entry.waiters.append(partial(client.reply, to=client.asked))
    assert entry.end_ns is not None
    sampler.book.hurry(entry.end_ns, time.monotonic_ns())


ANSWERS: dict[str, Callable[[Any, Client, Request], None]] = {
    "hello": hello,
    "devices": devices,
    "window": window,
    "windows": windows,
    "so_far": so_far,
    "between": between,
    "flush": flush,
    "bye": bye,
}
