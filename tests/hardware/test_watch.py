# SPDX-License-Identifier: Apache-2.0
"""Sensors written down under a clock that is moved by hand."""

from __future__ import annotations

import pytest

from joulelab.errors import SensorError
from joulelab.hardware.device import Sample
from joulelab.hardware.fake import Fake, Sensors
from joulelab.hardware.loads import Constant, Load, Square
from joulelab.hardware.watch import Log, period_of, watch


class Clock:
    def __init__(self) -> None:
        self.now_ns = 50_000_000_000

    def __call__(self) -> int:
        self.now_ns += 1000
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


class Card(Fake):
    """A fake with a field that can be told to refuse."""

    def fields(self):  # type: ignore[no-untyped-def]
        return {"instant field": self.instant_w, "averaged field": self.refused_w}

    def instant_w(self) -> float:
        return self.load.power_w(self._clock() / 1e9)

    def refused_w(self) -> float:
        raise SensorError("not this one")


def seen(load: Load, clock: Clock, *, seconds: float = 3.0, **sensors: object) -> tuple[Log, Card, int, int]:
    def now() -> int:
        return clock.now_ns

    given = {"buffer_period_s": 0.02, **sensors}
    # The device reads the stamp of its reading from the machine's clock; the log takes it as it comes.
    card = Card(power=load, sensors=Sensors(**given), clock=now)  # type: ignore[arg-type]
    log = Log()
    start_ns = clock.now_ns
    watch(card, log, until_ns=start_ns + round(seconds * 1e9), clock=clock, sleep=clock.sleep)
    return log, card, start_ns, clock.now_ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("time.monotonic_ns", lambda: made.now_ns)
    return made


def test_every_sensor_tells_the_same_of_a_constant_load(clock: Clock) -> None:
    log, _, start_ns, end_ns = seen(Constant(300.0), clock)
    start_ns, end_ns = start_ns + 200_000_000, end_ns - 200_000_000
    assert log.counter_w(start_ns, end_ns) == pytest.approx(300.0, rel=0.01)
    assert log.buffer_w(start_ns, end_ns, lag_s=0.015) == pytest.approx(300.0)
    assert log.field_w("instant field", start_ns, end_ns) == pytest.approx(300.0)
    assert log.field_w("another", start_ns, end_ns) is None
    assert period_of([[t for t, _ in log.edges]]) == pytest.approx(0.1, abs=1e-4)


def test_a_counter_that_wraps_goes_on(clock: Clock) -> None:
    log, _, start_ns, end_ns = seen(Constant(300.0), clock, counter_range_j=100.0)
    assert log.counter_w(start_ns, end_ns) == pytest.approx(300.0, rel=0.01)
    assert all(b > a for (_, a), (_, b) in zip(log.edges, log.edges[1:], strict=False))


def test_a_sensor_that_refuses_leaves_the_others_alone(clock: Clock) -> None:
    log, *_ = seen(Constant(300.0), clock)
    assert log.troubles == {"averaged field": "not this one"}
    assert len(log.edges) > 20
    assert len(log.samples) > 100


def test_a_device_that_vanishes_leaves_what_was_seen(clock: Clock) -> None:
    log, *_ = seen(Constant(300.0), clock, lost_after_s=1.0)
    assert "no longer answers" in log.troubles["counter"]
    assert "no longer answers" in log.troubles["buffer"]
    assert 8 <= len(log.edges) <= 10


def test_updates_one_by_one(clock: Clock) -> None:
    log, _, start_ns, end_ns = seen(Square(high_s=0.1, low_s=0.1, high_w=400.0, low_w=100.0), clock)
    steps_w = log.steps_w(start_ns, end_ns, period_s=0.1)
    assert len(steps_w) > 25
    assert min(steps_w) == pytest.approx(100.0, rel=0.1)
    assert max(steps_w) == pytest.approx(400.0, rel=0.1)


def test_a_mean_needs_values_that_reach_over_the_span() -> None:
    log = Log(samples=[Sample(i * 100_000_000, 100.0 * i) for i in range(5)])
    assert log.buffer_w(0, 400_000_000, lag_s=0.0) == pytest.approx(200.0)
    assert log.buffer_w(0, 200_000_000, lag_s=0.1) == pytest.approx(200.0)
    assert log.buffer_w(-100_000_000, 100_000_000, lag_s=0.0) is None
    assert log.buffer_w(0, 900_000_000, lag_s=0.0) is None


def test_a_field_holds_each_value_until_the_next() -> None:
    log = Log(fields={"x": [(0, 100.0), (100, 300.0), (200, 300.0)]})
    assert log.field_w("x", 0, 200) == pytest.approx(200.0)
    assert log.field_w("x", 50, 150) == pytest.approx(200.0)


def test_a_period_over_pauses_and_missed_moves() -> None:
    # Reads see a move up to 5 ms late, not the same each time.
    def moved(k: int) -> int:
        return round(k * 100e6) + (k * 7919) % 5_000_000

    first = [moved(k) for k in range(20) if k not in {4, 5, 11}]
    second = [moved(k) for k in range(60, 80)]
    assert period_of([first, second]) == pytest.approx(0.1, rel=2e-4)
    assert period_of([[1, 2]]) is None
    assert period_of([[]]) is None
