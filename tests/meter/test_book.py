# SPDX-License-Identifier: Apache-2.0
"""Windows on their way to figures."""

from __future__ import annotations

from typing import Any

import pytest

from joulelab.hardware.device import Traits
from joulelab.meter.book import PATIENCE_NS, Book, Entry, device_energy
from joulelab.meter.channel import EdgeChannel, FastChannel
from joulelab.meter.edges import EdgeCurve
from tests.meter.loads import Bench, Clock, constant, drive, ns

EDGES = Traits(counter_period_s=0.1, power_max_w=700.0)


def _book() -> tuple[Book, EdgeChannel, Clock, list[dict[str, Any]]]:
    clock = Clock()
    channel = EdgeChannel(Bench(constant(400), clock, traits=EDGES))
    drive(channel, clock, 3.0)
    done: list[dict[str, Any]] = []
    return (
        Book([channel], finished=lambda entry, figures: done.append({**entry.labels, **figures})),
        channel,
        clock,
        done,
    )


def _add(book: Book, name: str, start_s: float, end_s: float | None) -> Entry:
    entry = Entry(ns(start_s), labels={"name": name})
    book.start(entry)
    if end_s is not None:
        book.end(entry, ns(end_s))
    return entry


def test_windows_are_finished_when_the_curves_have_passed() -> None:
    book, channel, clock, done = _book()
    _add(book, "past", 2.0, 2.5)
    _add(book, "just now", 2.0, 3.0)
    book.settle(clock.now_ns)
    assert [d["name"] for d in done] == ["past"]
    drive(channel, clock, 3.3)
    book.settle(clock.now_ns)
    assert [d["name"] for d in done] == ["past", "just now"]
    assert abs(done[1]["energy_j"] - 600.0) <= done[1]["energy_error_j"]
    assert not book.busy


def test_a_window_longer_than_the_memory_is_exact() -> None:
    book, channel, clock, done = _book()
    entry = _add(book, "long", 2.0, None)
    for end_s in range(10, 370, 10):
        drive(channel, clock, float(end_s))
        book.settle(clock.now_ns)
        channel.forget(clock.now_ns)
    assert len(channel.edges) < 2000
    book.end(entry, ns(359.0))
    book.settle(clock.now_ns)
    assert abs(done[0]["energy_j"] - 357 * 600.0) <= done[0]["energy_error_j"] < 20


def test_patience_has_an_end() -> None:
    book, channel, clock, done = _book()
    channel.device.broken = True  # type: ignore[attr-defined]
    entry = _add(book, "asked for", 2.0, 3.0)
    asked: list[object] = []
    entry.waiters.append(asked.append)
    book.hurry(ns(3.0), clock.now_ns)
    assert book.deadline_ns == clock.now_ns + PATIENCE_NS
    book.settle(clock.now_ns)
    assert not asked
    book.settle(clock.now_ns + PATIENCE_NS)
    assert len(asked) == 1
    assert abs(done[0]["energy_j"] - 600.0) <= done[0]["energy_error_j"]


def test_what_is_left_can_be_forced() -> None:
    book, _, clock, done = _book()
    _add(book, "future", 2.0, 9.0)
    book.settle(clock.now_ns)
    assert not done
    book.settle(clock.now_ns, force=True)
    assert done[0]["energy_error_j"] > 500


def test_what_nobody_remembers_is_not_guessed() -> None:
    book, channel, clock, done = _book()
    for end_s in (150.0, 300.0):
        drive(channel, clock, end_s)
        channel.forget(clock.now_ns)
    _add(book, "forgotten", 5.0, 299.0)
    book.settle(clock.now_ns)
    assert done[0]["energy_j"] is None
    assert "longer ago than it remembers" in done[0]["flags"][0]


def test_without_devices_windows_end_at_once() -> None:
    done: list[object] = []
    book = Book([], finished=lambda entry, figures: done.append(figures["energy_j"]))
    _add(book, "w", 1.0, 2.0)
    book.settle(0)
    assert done == [None]


def test_an_estimate_carries_the_error_of_its_model() -> None:
    clock = Clock()
    device = Bench(
        constant(15.0), clock, traits=Traits(counter_period_s=0.001, power_max_w=700.0, gain_error=0.5)
    )
    device.source = "estimated"
    channel = FastChannel(device)
    drive(channel, clock, 12.0)
    curve = channel.curve
    _, without_j = curve.between(curve.mark(ns(1.0)), curve.mark(ns(11.0)))
    figures = device_energy(channel, curve.mark(ns(1.0)), curve.mark(ns(11.0)))
    assert figures.energy_j == pytest.approx(6000.0, rel=0.01)
    assert figures.error_j == pytest.approx(without_j + 3000.0, rel=0.01)
    device.source = channel.source = "counter"  # a sensor's gain is stated apart
    assert device_energy(channel, curve.mark(ns(1.0)), curve.mark(ns(11.0))).error_j == without_j


def test_a_window_over_the_exchange_of_a_curve_is_read_from_the_new_one_alone() -> None:
    book, channel, clock, done = _book()
    entry = _add(book, "over it", 2.0, None)
    book.settle(clock.now_ns)
    assert entry.starts is not None
    other = EdgeCurve(power_min_w=0.0, power_max_w=700.0, resolution_s=0.1)
    for tenth in range(31):
        other.add(ns(tenth / 10), half_ns=0, energy_j=1e6 + 60.0 * tenth)
    channel.curve = other
    book.again()
    book.end(entry, ns(2.5))
    book.settle(clock.now_ns)
    assert done[0]["energy_j"] == pytest.approx(300.0)
