# SPDX-License-Identifier: Apache-2.0
"""The one thing that the measured process writes."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from joulelab.meter.ring import END, MARGIN, START, RingReader, RingWriter


def _put(ring: RingWriter, number: int, *, name: str = "x") -> None:
    ring.put(START | ring.name(name) << 8, window=number, parent=0, thread=7, time_ns=1000 + number)


def test_what_is_written_is_read(weird_tmp_path: Path) -> None:
    writer = RingWriter(weird_tmp_path / "ring")
    reader = RingReader(weird_tmp_path / "ring")
    _put(writer, 1, name='na"me\n')
    writer.put(END | 1 << 8, window=1, parent=0, thread=0, time_ns=1 << 62)
    start, end = reader.events()
    assert (start.kind, start.name, start.window, start.thread, start.time_ns) == (
        START,
        'na"me\n',
        1,
        7,
        1001,
    )
    assert (end.kind, end.flags, end.time_ns) == (END, 1, 1 << 62)
    assert list(reader.events()) == []
    writer.close()
    reader.close()


def test_a_full_ring_drops_and_counts_and_never_waits(tmp_path: Path) -> None:
    slots = 1024
    writer = RingWriter(tmp_path / "ring", slots=slots)
    reader = RingReader(tmp_path / "ring")
    for number in range(3000):
        _put(writer, number)
    kept = [event.window for event in reader.events()]
    assert kept == list(range(len(kept)))
    assert slots - MARGIN <= len(kept) <= slots
    assert writer.dropped == 3000 - len(kept)
    # Once there is room again it goes on, and round and round.
    for number in range(5000, 15_000):
        _put(writer, number)
        if number % 100 == 0:
            assert [e.window for e in reader.events()][-1] == number
    writer.close()
    reader.close()


def test_half_an_event_is_no_event(tmp_path: Path) -> None:
    writer = RingWriter(tmp_path / "ring")
    reader = RingReader(tmp_path / "ring")
    _put(writer, 1)
    writer._map[64 + 40] ^= 0xFF  # one byte of the time is still on its way
    assert list(reader.events()) == []
    writer._map[64 + 40] ^= 0xFF
    assert [event.window for event in reader.events()] == [1]
    writer.close()
    reader.close()


def test_threads_lose_nothing(tmp_path: Path) -> None:
    writer = RingWriter(tmp_path / "ring")
    reader = RingReader(tmp_path / "ring")

    def work(first: int) -> None:
        for i in range(2000):
            _put(writer, first + i, name=f"thread {first} {i % 10}")

    threads = [threading.Thread(target=work, args=(k * 10_000,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = list(reader.events())
    assert sorted(e.window for e in events) == sorted(k * 10_000 + i for k in range(4) for i in range(2000))
    assert all(e.name == f"thread {e.window // 10_000 * 10_000} {e.window % 10}" for e in events)
    writer.close()
    reader.close()


def test_two_rings_do_not_share_a_file(tmp_path: Path) -> None:
    writer = RingWriter(tmp_path / "ring")
    with pytest.raises(FileExistsError):
        RingWriter(tmp_path / "ring")
    writer.close()


def test_a_name_that_is_new_is_readable_at_once(tmp_path: Path) -> None:
    writer = RingWriter(tmp_path / "ring")
    reader = RingReader(tmp_path / "ring")
    for number in range(20):
        _put(writer, number + 1, name=f"step {number} \n \u00e9")
        assert [event.name for event in reader.events()] == [f"step {number} \n \u00e9"]
    writer.close()
    reader.close()


def test_an_event_that_never_comes_holds_up_the_others_for_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C strikes between taking a number and writing."""
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    writer = RingWriter(tmp_path / "ring", slots=1024)
    reader = RingReader(tmp_path / "ring")
    _put(writer, 1)
    next(writer._count)
    assert [event.window for event in reader.events()] == [1]
    now_s[0] = 10.0
    assert not list(reader.events())  # it may be under way
    _put(writer, 2)
    assert not list(reader.events())
    now_s[0] = 11.0
    assert not list(reader.events())
    now_s[0] = 12.5
    assert [event.window for event in reader.events()] == [2]
    for number in range(3, 2000):
        _put(writer, number)
        assert [event.window for event in reader.events()] == [number]
    writer.close()
    reader.close()


def test_its_room_is_taken_when_it_is_made(tmp_path: Path) -> None:
    """A hole in the file would be filled while the training writes, and a full disk then be a SIGBUS."""
    writer = RingWriter(tmp_path / "ring")
    status = (tmp_path / "ring").stat()
    assert status.st_blocks * 512 >= status.st_size
    writer.close()


@pytest.mark.parametrize("written", [0, 3])
def test_a_full_disk_costs_names_and_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    writer = RingWriter(tmp_path / "ring")
    reader = RingReader(tmp_path / "ring")
    _put(writer, 1, name="before")
    whole = os.write

    def full(descriptor: int, data: bytes) -> int:
        if not written:
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(descriptor, data[:written])

    monkeypatch.setattr(os, "write", full)
    _put(writer, 2, name="no room")
    monkeypatch.undo()
    # Room again does not help: a name would be glued to what is left of the one before.
    for number, name in enumerate(["before", "no room", "later"], start=3):
        _put(writer, number, name=name)
    assert [event.name for event in reader.events()] == ["before", "?", "before", "?", "?"]
    writer.close()
    reader.close()
