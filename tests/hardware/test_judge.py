# SPDX-License-Identifier: Apache-2.0
"""From figures to a verdict, with figures written by hand (the H200's among them)."""

from __future__ import annotations

import dataclasses

import pytest

from joulelab.hardware.device import Device, Sample, Traits
from joulelab.hardware.judge import Row, Trains, judge
from joulelab.hardware.response import Response
from joulelab.hardware.watch import Log

RESPONSE = Response(
    lag_s=0.016, lag_error_s=0.004, window_s=0.04, explained=0.9, idle_w=125.0, busy_w=690.0, samples=400
)


class Card(Device):
    uid = "gpu:1"
    name = "A card"
    driver = "1"
    traits = Traits(counter_period_s=0.1, buffer_period_s=0.02, power_period_s=0.1)


class Counterless(Card):
    traits = Traits(buffer_period_s=0.02, power_period_s=0.1)


def row(train: str, counter_w: float | None, buffer_w: float | None, **more: object) -> Row:
    fields_w = {"averaged field": counter_w, "instant field": more.get("instant_w")}
    swing = more.get("swing")
    return Row(
        train=train,
        seconds=5.0,
        counter_w=counter_w,
        counter_swing=swing,  # type: ignore[arg-type]
        buffer_w=buffer_w,
        fields_w=fields_w,  # type: ignore[arg-type]
    )


def rows(in_step_w: tuple[float, ...], *, swing: float, buffer_w: float = 297.0) -> list[Row]:
    return [
        *(row(f"in step, phase {i}/4", w, 291.0, instant_w=130.0) for i, w in enumerate(in_step_w)),
        row("drifting", 296.7, buffer_w, swing=swing, instant_w=220.0),
        row("long", 400.0, 401.0, instant_w=402.0),
    ]


def test_the_h200() -> None:
    found = judge(
        Card(), rows=rows((323.5, 326.2, 325.0, 324.0), swing=0.25), response=RESPONSE, period_s=0.1
    )
    assert found.counter_is_trusted
    assert found.buffer_is_trusted
    assert (found.buffer_lag_s, found.buffer_lag_error_s, found.buffer_window_s) == (0.016, 0.004, 0.04)
    said = "\n".join(found.words)
    for words in (
        "moves every 100.0 ms",
        "in 4 phases of its period look alike within 0.8%",
        "trusted for the area",
        "late by 16 +- 4 ms, each sample over 40 ms",
        "at most 0.2% on all others (long)",
        "instant field: up to 60.1% off (in step, phase 1/4); never integrated here",
        "gain, common to all of them, cannot be found out",
    ):
        assert words in said


@pytest.mark.parametrize(("in_step_w", "swing"), [((690.0, 125.0, 125.0, 300.0), 0.2), ((300.0,) * 4, 1.4)])
def test_a_blind_counter(in_step_w: tuple[float, ...], swing: float) -> None:
    found = judge(Card(), rows=rows(in_step_w, swing=swing), response=RESPONSE, period_s=0.1)
    assert not found.counter_is_trusted
    assert found.buffer_is_trusted, "a blind counter condemns nobody"
    assert "a PART of each period" in found.words[0]
    assert "no counter to hold it against" in found.words[1]


def test_a_buffer_that_tells_something_else() -> None:
    found = judge(Card(), rows=rows((324.0,) * 4, swing=0.2, buffer_w=250.0), response=RESPONSE, period_s=0.1)
    assert not found.buffer_is_trusted
    assert "NOT trusted" in found.words[1]


def test_a_response_that_explains_little_is_not_kept() -> None:
    vague = dataclasses.replace(RESPONSE, explained=0.3)
    found = judge(Card(), rows=rows((324.0,) * 4, swing=0.2), response=vague, period_s=0.1)
    assert found.buffer_lag_s is None
    assert found.buffer_window_s is None
    assert found.buffer_is_trusted


def test_a_card_without_counter() -> None:
    found = judge(
        Counterless(), rows=[row("drifting", None, 300.0, instant_w=150.0)], response=RESPONSE, period_s=None
    )
    assert not any("energy counter" in words for words in found.words)
    assert any("instant field: up to 50.0% off" in words for words in found.words)


def test_little_was_seen() -> None:
    found = judge(Card(), rows=[row("long", None, None)], response=None, period_s=None)
    assert found.counter_is_trusted
    assert found.buffer_is_trusted
    assert "nothing speaks against it" in found.words[0]
    assert any("could not be held against anything" in words for words in found.words)


def test_a_row_uses_one_span_for_all_sensors() -> None:
    # 200 W in the first half second, 400 W after it.
    def at(t_ms: int) -> float:
        return 200.0 if t_ms < 1000 else 400.0

    joules, edges = 0.0, []
    for t_ms in range(0, 2001, 100):
        edges.append((t_ms * 1_000_000, joules))
        joules += at(t_ms) * 0.1
    log = Log(
        edges=edges,
        samples=[Sample((t + 15) * 1_000_000, at(t)) for t in range(-100, 2200, 10)],
        fields={"instant field": [(t * 1_000_000, at(t)) for t in range(-100, 2200, 10)]},
    )
    found = Trains(rest_w=100.0, period_s=0.1, lag_s=0.015).row("x", log, 0.45, 1.55)
    assert found.seconds == pytest.approx(1.0)
    assert found.counter_w == pytest.approx(300.0)
    assert found.buffer_w == pytest.approx(300.0, abs=2.0)
    assert found.fields_w["instant field"] == pytest.approx(300.0, abs=2.0)
    assert found.counter_swing == pytest.approx(0.5, abs=0.01)
