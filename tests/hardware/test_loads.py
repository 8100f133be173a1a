# SPDX-License-Identifier: Apache-2.0
"""Integrals against sums over many small steps, and against each other."""

from __future__ import annotations

import random

import pytest

from joulelab.errors import InputError
from joulelab.hardware.loads import SHAPES, Constant, Load, Ramp, Spikes, Square, Steps, Trace, noise

LOADS: dict[str, Load] = {
    "constant": Constant(600.0),
    "square": Square(phase_s=0.0123),
    "steps": Steps(seed=3, step_s=0.03),
    "ramp": Ramp(rise_s=1.5, fall_s=0.5),
    "spikes": Spikes(seed=5),
    "trace": Trace(times_s=[0.0, 0.5, 0.75, 2.0], powers_w=[10.0, 500.0, 20.0, 300.0], phase_s=0.2),
}


def test_every_shape_is_tried_here() -> None:
    assert set(LOADS) == set(SHAPES)


@pytest.mark.parametrize("name", LOADS)
def test_integral_is_the_sum_of_small_steps(name: str) -> None:
    load, rng = LOADS[name], random.Random(name)
    for _ in range(20):
        a_s = rng.uniform(0.0, 2e6)
        b_s = a_s + rng.uniform(0.0, 3.0)
        n = 4000
        step_s = (b_s - a_s) / n
        summed_j = sum(load.power_w(a_s + (i + 0.5) * step_s) for i in range(n)) * step_s
        # Each jump of the power falls into one small step.
        assert load.integral_j(a_s, b_s) == pytest.approx(
            summed_j, abs=1e-6 + 300 * (load.max_w - load.min_w) * step_s
        )


@pytest.mark.parametrize("name", LOADS)
def test_neighbouring_spans_add_up_far_from_zero(name: str) -> None:
    load, rng = LOADS[name], random.Random(name)
    for _ in range(500):
        a_s, b_s, c_s = sorted(rng.uniform(1e6, 1e6 + 10.0) for _ in range(3))
        whole_j = load.integral_j(a_s, c_s)
        assert load.integral_j(a_s, b_s) + load.integral_j(b_s, c_s) == pytest.approx(whole_j, abs=1e-5)
        assert load.min_w * (c_s - a_s) - 1e-6 <= whole_j <= load.max_w * (c_s - a_s) + 1e-6


def test_the_square_wave_in_closed_form() -> None:
    load = Square(high_w=690.0, low_w=125.0, high_s=0.160, low_s=0.040)
    assert load.integral_j(0.0, 0.160) == pytest.approx(690.0 * 0.160)
    assert load.integral_j(0.150, 0.210) == pytest.approx(690.0 * 0.010 + 125.0 * 0.040 + 690.0 * 0.010)
    assert load.integral_j(0.0, 1000.0) == pytest.approx(5000 * (690.0 * 0.160 + 125.0 * 0.040))


def test_a_ramp_in_closed_form() -> None:
    load = Ramp(from_w=100.0, to_w=700.0, rise_s=10.0)
    assert load.power_w(5.0) == pytest.approx(400.0)
    assert load.integral_j(0.0, 5.0) == pytest.approx(1250.0)


def test_every_spike_has_its_full_energy() -> None:
    load = Spikes(base_w=100.0, peak_w=600.0, spike_s=0.01, every_s=0.1, seed=1)
    for k in range(50):
        assert load.integral_j(k * 0.1, (k + 1) * 0.1) == pytest.approx(0.09 * 100.0 + 0.01 * 600.0)


def test_seeds_differ_and_repeat() -> None:
    assert Steps(seed=1).pieces == Steps(seed=1).pieces
    assert Steps(seed=1).pieces != Steps(seed=2).pieces
    values = [noise(7, k) for k in range(5000)]
    assert all(0.0 <= v < 1.0 for v in values)
    assert sum(values) / len(values) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Constant(-1.0),
        lambda: Load([]),
        lambda: Square(high_s=0.0, low_s=0.0),
        lambda: Spikes(spike_s=0.2, every_s=0.1),
        lambda: Trace(times_s=[0.0, 0.0], powers_w=[1.0, 2.0]),
        lambda: Trace(times_s=[0.0], powers_w=[]),
    ],
)
def test_what_cannot_be_played_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(InputError, match="cure"):
        make()
