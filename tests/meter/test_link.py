# SPDX-License-Identifier: Apache-2.0
"""Finding, starting and losing a sampler."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from joulelab.errors import SensorError
from joulelab.meter import link
from joulelab.meter.link import Link, connect
from joulelab.meter.ring import RingWriter
from joulelab.meter.runtime import VARIABLE


def test_without_a_sampler_nothing_fails_and_why_is_said() -> None:
    null = Link("no sensor here")
    null.put(1, window=1, parent=0, thread=0, time_ns=0)
    assert null.name("x") == 0
    with pytest.raises(SensorError, match="no sensor here"):
        null.ask({"op": "flush"})
    null.close()


def test_a_sampler_that_was_named_and_is_gone_is_replaced(fake: str, tmp_path: Path) -> None:
    made = connect(out=None, devices=[fake], environment={VARIABLE: str(tmp_path / "nothing here")})
    assert made.pid
    made.close()


def test_joining_and_the_last_one_out(fake: str) -> None:
    first = connect(out=None, devices=[fake], environment={})
    assert first.runtime is not None
    second = connect(out=None, devices=[], environment={VARIABLE: str(first.runtime.path)})
    assert second.pid == first.pid
    first.close()
    assert second.ask({"op": "devices"})["devices"]
    second.close()
    assert not second.runtime or not second.runtime.path.exists()


def test_a_working_directory_full_of_traps(
    fake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "select", "socket", "joulelab"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('trapped')")
    monkeypatch.chdir(tmp_path)
    made = connect(out=None, devices=[fake], environment={})
    made.close()


def test_without_room_for_a_ring_windows_can_still_be_asked_for(
    fake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(link, "RingWriter", full)
    made = connect(out=None, devices=[fake], environment={})
    now_ns = link_now()
    figures = made.ask({"op": "window", "id": 5, "start": now_ns - 10**7, "end": now_ns, "flags": 1})
    assert figures["energy_j"] is not None
    assert "exception" in figures["flags"]
    made.close()


def link_now() -> int:
    import time

    return time.monotonic_ns()


def test_threads_may_ask_at_once(fake: str) -> None:
    made = connect(out=None, devices=[fake], environment={})
    now_ns, seen = link_now(), []

    def ask(back_ms: int) -> None:
        span = {"op": "between", "start": now_ns - back_ms * 10**6, "end": now_ns}
        seen.append((back_ms, made.ask(span)["time_s"]))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [(i, pytest.approx(i / 1000)) for i in range(1, 9)]
    with pytest.raises(SensorError, match="refused"):
        made.ask({"op": "no such thing"})
    made.close()


def test_races_to_start_make_one_sampler(fake: str) -> None:
    job = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0"}
    made: list[link.SamplerLink] = []
    threads = [
        threading.Thread(target=lambda: made.append(connect(out=None, devices=[fake], environment=job)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.pid for one in made}) == 1
    for one in made:
        one.close()


def test_a_child_of_a_fork_is_not_held_up_by_what_the_parent_was_asking(fake: str) -> None:
    made = connect(out=None, devices=[fake], environment={})
    with made._lock:  # as another thread holds it at the instant of the fork
        child = os.fork()
        if not child:
            signal.alarm(5)
            made.abandon()
            try:
                made.ask({"op": "devices"})
            except SensorError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
    made.close()


def test_a_sampler_that_was_killed_leaves_no_folder(fake: str) -> None:
    made = connect(out=None, devices=[fake], environment={})
    assert made.runtime is not None
    os.kill(made.pid, signal.SIGKILL)
    made.close()
    assert not made.runtime.path.exists()


def test_the_same_process_may_connect_twice(fake: str) -> None:
    first = connect(out=None, devices=[fake], environment={})
    assert first.runtime is not None
    second = connect(out=None, devices=[], environment={VARIABLE: str(first.runtime.path)})
    assert len(list(first.runtime.path.glob("ring-*.names"))) == 2
    first.close()
    second.close()


def test_two_threads_that_connect_at_once_have_a_ring_each(
    fake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = connect(out=None, devices=[fake], environment={})
    assert first.runtime is not None
    environment = {VARIABLE: str(first.runtime.path)}
    both_chose = threading.Barrier(2)

    class Slow(RingWriter):
        """Both threads look for a free name before either of them has made its file."""

        def __init__(self, path: Path) -> None:
            if not path.name.endswith("-0"):
                both_chose.wait(10)
                monkeypatch.setattr(link, "RingWriter", RingWriter)
            super().__init__(path)

    monkeypatch.setattr(link, "RingWriter", Slow)
    made: list[link.SamplerLink] = []
    threads = [
        threading.Thread(target=lambda: made.append(connect(out=None, devices=[], environment=environment)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each._ring is not None for each in made] == [True, True]
    for each in (first, *made):
        each.close()


def test_a_request_with_a_ring_that_is_not_there_does_not_end_the_sampler(fake: str) -> None:
    made = connect(out=None, devices=[fake], environment={})
    assert made.runtime is not None
    with pytest.raises(SensorError, match="FileNotFoundError"):
        made.ask({"op": "hello", "pid": os.getpid(), "ring": str(made.runtime.path / "no"), "rank": None})
    assert made.ask({"op": "devices"})["devices"]
    made.close()
