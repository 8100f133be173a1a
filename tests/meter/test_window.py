# SPDX-License-Identifier: Apache-2.0
"""Windows in all the ways people use them."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from joulelab.errors import InputError
from joulelab.meter import synchronize
from joulelab.meter.meter import Meter
from joulelab.meter.owner import close_all
from joulelab.meter.session import WHOLE
from joulelab.meter.window import measure


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "trial"


def records(out: Path) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "windows.jsonl").read_text().splitlines()]
    return {line["name"]: line for line in lines if "id" in line}


def test_measure_needs_no_meter(fake: str, out: Path) -> None:
    with measure("block", out=out, devices=[fake]) as m:
        time.sleep(0.02)
    assert m.time_s >= 0.02
    assert m.energy_j is not None
    assert (m.power_w, m.source, m.resolution_s) == (m.measurement.power_w, "counter", 0.1)
    assert m.energy_j_by_device == m.measurement.energy_j_by_device
    close_all()
    assert list(records(out)) == ["block", WHOLE]


def test_decorated_functions(fake: str, out: Path) -> None:
    @measure(out=out, devices=[fake])
    def plain(x: int) -> int:
        return x + 1

    @measure("named", out=out, devices=[fake])
    async def waits() -> str:
        await asyncio.sleep(0.01)
        return "done"

    assert not out.exists()  # nothing happens before the first call
    assert [plain(1), plain(2)] == [2, 3]
    assert asyncio.run(waits()) == "done"
    assert plain.__name__ == "plain"
    close_all()
    lines = [json.loads(line) for line in (out / "windows.jsonl").read_text().splitlines()][1:]
    names = [line["name"] for line in lines]
    assert names == ["test_decorated_functions.<locals>.plain"] * 2 + ["named", WHOLE]
    assert records(out)["named"]["time_s"] >= 0.01


def test_generators_are_refused_in_words() -> None:
    def values() -> Iterator[int]:
        yield 1

    async def later() -> AsyncIterator[int]:
        yield 1

    for function in (values, later):
        with pytest.raises(InputError, match="is a generator"):
            measure()(function)


def test_nesting_overlap_and_threads(fake: str, out: Path) -> None:
    with Meter(out=out, devices=[fake]) as meter:
        a, b = meter.window("a"), meter.window("b")
        a.__enter__()
        b.__enter__()
        a.__exit__(None, None, None)  # a ends before b, which began inside of it
        with meter.window("in b"):
            pass
        b.__exit__(None, None, None)

        def work() -> None:
            with meter.window("in a thread"), meter.window("deeper"):
                pass

        with meter.window("main"):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        with meter.window("alone"):
            pass
    found = records(out)
    parents = {name: record["parent"] for name, record in found.items()}
    assert parents["b"] == found["a"]["id"]
    assert parents["in b"] == found["b"]["id"]
    assert parents["in a thread"] is None
    assert parents["deeper"] == found["in a thread"]["id"]
    assert parents["alone"] is None
    assert found["deeper"]["thread"] != found["main"]["thread"]


def test_an_exception_passes_and_is_flagged(fake: str, out: Path) -> None:
    with Meter(out=out, devices=[fake]) as meter:
        with pytest.raises(KeyError, match="mine"), meter.window("fails") as failed:
            raise KeyError("mine")
        assert "exception" in failed.flags
    assert "exception" in records(out)["fails"]["flags"]


def test_a_device_in_error_does_not_hide_the_users_exception(fake: str) -> None:
    calls = []

    def broken() -> None:
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("device-side assert")

    with Meter(devices=[fake]) as meter:
        meter.wait = broken  # type: ignore[assignment]
        with pytest.raises(KeyError, match="mine"), meter.window("w"):
            raise KeyError("mine")
    assert len(calls) == 2


def test_devices_are_waited_for_before_both_stamps(fake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    clock = time.monotonic_ns

    def stamp() -> int:
        order.append("stamp")
        return clock()

    with Meter(devices=[fake]) as meter:
        meter.open()
        meter.wait = lambda: order.append("wait")  # type: ignore[assignment]
        monkeypatch.setattr(time, "monotonic_ns", stamp)
        with meter.window("w"):
            pass
        assert order == ["wait", "stamp", "wait", "stamp"]
        order.clear()
        with meter.window("w", synchronize=False):
            pass
        assert order == ["stamp", "stamp"]
        monkeypatch.undo()
        assert isinstance(Meter().wait, synchronize.Waiter)


def test_a_window_is_read_after_its_end_and_entered_once_at_a_time(fake: str) -> None:
    with Meter(devices=[fake]) as meter:
        w = meter.window("w")
        with pytest.raises(InputError, match="was not entered"):
            w.so_far()
        with w:
            with pytest.raises(InputError, match="has not ended"):
                _ = w.measurement
            with pytest.raises(InputError, match="open already"), w:
                pass
        first = w.measurement
        assert w.measurement is first
        assert w.so_far() is first
        with w:
            time.sleep(0.01)
        assert w.measurement is not first
        assert w.time_s >= 0.01


def test_a_closed_meter_keeps_what_windows_were_told(fake: str) -> None:
    meter = Meter(devices=[fake])
    with meter.window("w") as w:
        pass
    inside = meter.window("ends too late")
    inside.__enter__()
    meter.close()
    inside.__exit__(None, None, None)
    assert w.energy_j is not None
    assert inside.energy_j is None
    assert "closed" in inside.flags[0]


def test_a_decorator_without_parentheses_is_refused_before_it_swallows_calls() -> None:
    def train(model: object) -> object:
        return model

    with pytest.raises(InputError, match=r"not function\n  cure: as a decorator write @measure\(\)"):
        measure(train)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is text, not int"):
        measure(3)  # type: ignore[arg-type]


def test_figures_up_to_an_instant_that_has_passed(fake: str) -> None:
    with Meter(devices=[fake]) as meter:
        w = meter.window("w")
        with pytest.raises(InputError, match="was not entered"):
            w.until(1)
        with w:
            time.sleep(0.05)
            mark_ns = time.monotonic_ns()
            time.sleep(0.05)
            opened = w.until(mark_ns)
        # Asked while it was open, and asked after its end: the same part of it.
        ended = w.until(mark_ns)
        for part in (opened, ended):
            assert part.time_s == pytest.approx((mark_ns - w.start_ns) * 1e-9)
            assert part.energy_j is not None
            assert part.energy_error_j is not None
            assert part.energy_j == pytest.approx(400.0 * part.time_s, abs=part.energy_error_j)
        assert w.until(w.end_ns) == w.measurement
