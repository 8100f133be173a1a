# SPDX-License-Identifier: Apache-2.0
"""Lag and memory of a buffer, found from samples of a known response."""

from __future__ import annotations

import random

import pytest

from joulelab.hardware.device import Sample
from joulelab.hardware.response import Busy, fit


def bursts(length_s: float = 8.0) -> list[tuple[float, float]]:
    draw = random.Random(4)
    spans_s, t_s = [], 100.0
    while t_s < 100.0 + length_s:
        on_s = draw.uniform(0.02, 0.1)
        spans_s.append((t_s, t_s + on_s))
        t_s += on_s + draw.uniform(0.04, 0.18)
    return spans_s


def samples(
    spans_s: list[tuple[float, float]], *, lag_s: float, window_s: float, noise_w: float
) -> list[Sample]:
    draw = random.Random(5)
    busy = Busy(spans_s)
    found = []
    t_s = 99.5
    while t_s < spans_s[-1][1] + 0.5:
        t_s += draw.choice([0.010, 0.020, 0.034])
        share = busy.share(t_s - lag_s - window_s / 2, t_s - lag_s + window_s / 2)
        found.append(Sample(round(t_s * 1e9), 125.0 + 565.0 * share + draw.gauss(0.0, noise_w)))
    return found


def test_seconds_of_work() -> None:
    busy = Busy([(1.0, 2.0), (3.0, 5.0)])
    assert [busy.until(t) for t in (0.0, 1.5, 2.0, 2.5, 4.0, 9.0)] == [0.0, 0.5, 1.0, 1.0, 2.0, 3.0]
    assert busy.share(1.0, 5.0) == 0.75


@pytest.mark.parametrize(
    ("lag_s", "window_s"), [(0.015, 0.040), (0.0, 0.025), (0.060, 0.100), (0.033, 0.003)]
)
def test_lag_and_window_are_found(lag_s: float, window_s: float) -> None:
    spans_s = bursts()
    found = fit(samples(spans_s, lag_s=lag_s, window_s=window_s, noise_w=5.0), spans_s)
    assert found is not None
    assert abs(found.lag_s - lag_s) <= found.lag_error_s
    assert found.lag_error_s <= 0.005
    assert found.window_s == pytest.approx(window_s, abs=0.008)
    assert found.explained > 0.97
    assert found.idle_w == pytest.approx(125.0, abs=6.0)
    assert found.busy_w == pytest.approx(690.0, rel=0.04)


def test_noise_widens_the_doubt() -> None:
    spans_s = bursts()
    quiet = fit(samples(spans_s, lag_s=0.015, window_s=0.04, noise_w=1.0), spans_s)
    loud = fit(samples(spans_s, lag_s=0.015, window_s=0.04, noise_w=150.0), spans_s)
    assert quiet is not None
    assert loud is not None
    assert loud.lag_error_s > quiet.lag_error_s
    assert loud.explained < quiet.explained


def test_too_little_to_see() -> None:
    spans_s = bursts()
    assert fit([], spans_s) is None
    assert fit(samples(spans_s, lag_s=0.0, window_s=0.04, noise_w=0.0)[:30], spans_s) is None
    assert fit([Sample(round((100 + i / 50) * 1e9), 300.0) for i in range(400)], spans_s) is None
    assert fit(samples(spans_s, lag_s=0.0, window_s=0.04, noise_w=0.0), []) is None


def test_power_that_falls_under_load_explains_nothing() -> None:
    spans_s = bursts()
    upside_down = [
        Sample(s.time_ns, 900.0 - s.power_w)
        for s in samples(spans_s, lag_s=0.015, window_s=0.04, noise_w=0.0)
    ]
    found = fit(upside_down, spans_s)
    assert found is not None
    assert found.explained < 0.5
