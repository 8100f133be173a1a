# SPDX-License-Identifier: Apache-2.0
"""The promise of the room: ten thousand windows of each kind, and the truth inside the bound in every one."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from joulelab.meter.integral import IntegralCurve
from tests.meter.loads import (
    LOADS,
    Counter,
    Load,
    constant,
    locked,
    ns,
    polled,
    shaped,
    spread,
    square,
    steps,
    windows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from joulelab.meter.curve import Curve

LENGTH_S = 100.0


def _errors(curve: Curve, load: Load, *, count: int = 10_000) -> list[float]:
    """Error of each window; fails where one is beyond its bound."""
    errors = []
    for start_s, end_s in windows(count, LENGTH_S):
        energy_j, bound_j = curve.between(curve.mark(ns(start_s)), curve.mark(ns(end_s)))
        error_j = energy_j - (load.energy(end_s) - load.energy(start_s))
        assert abs(error_j) <= bound_j, f"{start_s}..{end_s}: {error_j} J beyond the bound of {bound_j} J"
        errors.append(error_j)
    return errors


# Spreads that interpolation between edges reaches on these loads, in joules.
EDGES_J = {"constant": 0.05, "square": 7.0, "steps": 2.4}


@pytest.mark.parametrize("name", LOADS)
@pytest.mark.parametrize("read_s", [0.0, 0.0036])
def test_edges(name: str, read_s: float) -> None:
    load = LOADS[name](LENGTH_S + 5)
    curve, lock, reads = locked(Counter(load), LENGTH_S, read_s=read_s)
    # A read that takes 3.6 ms leaves its own length in doubt.
    doubt_j = 700 * read_s / 10
    assert spread(_errors(curve, load)) <= EDGES_J[name] + doubt_j
    assert lock.edges > 9.9 * LENGTH_S
    assert 2 <= reads / lock.edges <= 3


@pytest.mark.parametrize("name", LOADS)
def test_edges_that_wander(name: str) -> None:
    load = LOADS[name](LENGTH_S + 5)
    curve, _, reads = locked(Counter(load, jitter_s=0.004), LENGTH_S)
    assert spread(_errors(curve, load)) <= EDGES_J[name] + 3
    assert reads < 40 * LENGTH_S


def test_edges_across_wraps() -> None:
    load = square(LENGTH_S + 5)
    counter = Counter(load, range_j=1000.0)
    assert counter.values[-1] > 50 * counter.range_j
    curve, _, _ = locked(counter, LENGTH_S)
    assert spread(_errors(curve, load)) <= EDGES_J["square"]


@pytest.mark.parametrize("name", LOADS)
def test_buffer(name: str) -> None:
    load = LOADS[name](LENGTH_S + 5)
    counter = Counter(load)
    by_buffer = spread(_errors(shaped(load, counter, LENGTH_S), load))
    by_edges = spread(_errors(locked(counter, LENGTH_S)[0], load))
    assert by_buffer <= by_edges + (0.3 if name == "constant" else 0.0)


@pytest.mark.parametrize("lag_s", [0.010, 0.020])
def test_buffer_whose_lag_is_not_as_stated(lag_s: float) -> None:
    load = square(LENGTH_S + 5)
    _errors(shaped(load, Counter(load), LENGTH_S, lag_s=lag_s), load)


@pytest.mark.parametrize("name", LOADS)
def test_integration(name: str) -> None:
    load = LOADS[name](LENGTH_S + 5)
    errors = _errors(polled(load, LENGTH_S), load)
    mean_j = 2.6 * load.mean(0, LENGTH_S)
    assert spread(errors) < 0.02 * mean_j


@pytest.mark.parametrize("name", LOADS)
def test_integration_of_a_slow_mean(name: str) -> None:
    load = LOADS[name](LENGTH_S + 5)
    _errors(polled(load, LENGTH_S, poll_s=0.1, window_s=1.0), load)


def test_a_load_in_step_with_the_polling() -> None:
    """Polled at fixed instants, 20 ms of 700 W in every 40 ms would be seen always or never."""
    load = Load((step for _ in iter(int, 1) for step in ((0.020, 700.0), (0.020, 0.0))), LENGTH_S + 5)
    errors = _errors(polled(load, LENGTH_S, poll_s=0.04), load)
    assert abs(sum(errors) / len(errors)) < 0.02 * 2.6 * 350


def test_plain_reads_are_worse() -> None:
    """The loads here are as hard as those that the spreads above were published for."""
    for make, least_j in ((constant, 20), (square, 20), (steps, 17)):
        load = make(LENGTH_S + 5)
        counter = Counter(load)
        errors = [
            counter.read(end) - counter.read(start) - (load.energy(end) - load.energy(start))
            for start, end in windows(2000, LENGTH_S)
        ]
        assert spread(errors) > least_j


@pytest.mark.parametrize("period_s", [0.099, 0.101])
def test_integration_of_a_load_that_beats_with_the_sensors_updates(period_s: float) -> None:
    """The field holds the mean of the 100 ms before its last update, and the load turns almost as often."""
    half_s = period_s / 2
    load = Load((step for _ in iter(int, 1) for step in ((half_s, 690.0), (half_s, 125.0))), LENGTH_S + 5)
    draw = random.Random(9)
    curve = IntegralCurve(power_min_w=0.0, power_max_w=700.0, period_s=0.1, window_s=0.1, polled_s=0.05)
    for i in range(10, int(LENGTH_S / 0.05)):
        at_s = (i + draw.random()) * 0.05
        update_s = at_s // 0.1 * 0.1
        curve.add(ns(at_s), load.mean(update_s - 0.1, update_s))
    _errors(curve, load)


def _turns(kind: str, draw: random.Random) -> Iterator[tuple[float, float]]:
    """Spans and powers of loads that are harder than those above: short, in step with sensors, seldom."""
    high_w, low_w = draw.uniform(300, 700), draw.uniform(0, 250)
    period_s = draw.choice([0.02, 0.0333, 0.04, 0.05, 0.099, 0.1, 0.101, 0.2, 0.5])
    while True:
        if kind == "beat":
            yield from ((period_s / 2, high_w), (period_s / 2, low_w))
        elif kind == "steps":
            yield draw.uniform(0.005, 1), draw.uniform(0, 700)
        elif kind == "spikes":
            yield from ((draw.uniform(0.5, 3), low_w), (draw.uniform(0.002, 0.05), 700.0))
        else:
            yield from ((draw.uniform(3, 9), low_w), (draw.uniform(1, 4), high_w))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["beat", "steps", "spikes", "bursts"])
def test_hard_loads_under_sensors_that_are_late_and_wander(kind: str) -> None:
    for seed in range(12):
        draw = random.Random(f"{kind} {seed}")
        load = Load(_turns(kind, draw), 45)
        counter = Counter(load, jitter_s=draw.choice([0.0, 0.001, 0.004, 0.015]))
        curves = (
            locked(counter, 40, late_s=draw.choice([0.001, 0.005, 0.020]))[0],
            shaped(
                load, counter, 40, lag_s=draw.choice([0.010, 0.015, 0.020]), rest_s=draw.choice([0.3, 2.0])
            ),
        )
        for curve in curves:
            for _ in range(300):
                span_s = draw.choice([0.02, 0.05, 0.1, 0.3, 1.0, 5.0]) * draw.uniform(0.8, 1.2)
                start_s = draw.uniform(2.5, 36 - span_s)
                ends = ns(start_s), ns(start_s + span_s)
                energy_j, bound_j = curve.between(*(curve.mark(end) for end in ends))
                truth_j = load.energy(ends[1] * 1e-9) - load.energy(ends[0] * 1e-9)
                # A load at full power lies on the bound itself, so the last digit decides.
                assert abs(energy_j - truth_j) <= bound_j + 1e-6, (kind, seed, start_s, span_s)
