# SPDX-License-Identifier: Apache-2.0
"""The integral of a broken line."""

from __future__ import annotations

import pytest

from joulelab.meter.samples import Samples

S = 1_000_000_000


def _ramp() -> Samples:
    samples = Samples()
    for i in range(11):
        samples.append(i * S, 10.0 * i, steady_j=1.0 if i else 0.0, random_j2=2.0 if i else 0.0)
    return samples


@pytest.mark.parametrize("time_s", [0.0, 0.3, 5.0, 7.25, 10.0])
def test_the_integral_of_a_ramp_is_exact(time_s: float) -> None:
    energy_j, steady_j, random_j2 = _ramp().at(int(time_s * S))
    assert energy_j == pytest.approx(5.0 * time_s**2)
    assert steady_j == pytest.approx(time_s)
    assert random_j2 == pytest.approx(2 * time_s)


def test_outside_the_ends_hold() -> None:
    assert _ramp().at(12 * S)[0] == pytest.approx(500.0 + 200.0)
    assert _ramp().at(-S)[0] == pytest.approx(0.0)
    assert _ramp().gap_s(12 * S) == pytest.approx(2.0)
    assert _ramp().gap_s(-S) == pytest.approx(1.0)
    assert _ramp().gap_s(S // 2) == pytest.approx(1.0)


def test_the_range_takes_the_neighbours_in() -> None:
    assert _ramp().range_w(int(4.2 * S), int(4.8 * S)) == (40.0, 50.0)
    assert _ramp().range_w(20 * S, 30 * S) == (100.0, 100.0)


def test_pruning_keeps_the_integral() -> None:
    samples = Samples()
    for i in range(3000):
        samples.append(i * S, 100.0)
    before = samples.at(2500 * S + S // 2)
    samples.prune(2000 * S)
    assert len(samples) < 1010
    assert samples.at(2500 * S + S // 2) == before
