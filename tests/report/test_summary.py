# SPDX-License-Identifier: Apache-2.0
"""The summary of one measurement: an estimate is called one wherever it stands."""

from __future__ import annotations

from pathlib import Path

from joulelab.records.measurement import Measurement
from joulelab.report.summary import text

COUNTED = Measurement(
    time_s=12.44,
    energy_j=1240.0,
    energy_error_j=12.0,
    energy_j_by_device={"gpu:GPU-1": 1000.0, "cpu:package-0": 240.0},
    power_w=99.7,
    source="counter",
)


def test_says_everything() -> None:
    assert text(COUNTED, title="train.py", folder=Path("runs/x")).splitlines() == [
        "joulelab: train.py",
        "  time             12.4 s",
        "  energy           1.240 ± 0.012 kJ (±1.0 %)",
        "  power            99.7 W",
        "  source           counter: energy counter of the device",
        "    gpu:GPU-1      1.00 kJ",
        "    cpu:package-0  240 J",
        "  record           runs/x",
    ]


def test_every_line_of_an_estimate_says_so() -> None:
    estimated = Measurement(
        time_s=2.0,
        energy_j=20.0,
        energy_error_j=10.0,
        energy_j_by_device={"cpu:time": 18.0, "ram": 2.0},
        power_w=10.0,
        source="estimated",
        flags=("short",),
    )
    lines = text(estimated, title="x").splitlines()
    figures = [line for line in lines if line.endswith(("J", "W")) or " J" in line or " W" in line]
    assert len(lines) == 9
    assert all("estimated" in line for line in lines if " J" in line or " W" in line), figures
    assert "joulelab doctor" in lines[-1]


def test_simulated_is_marked_beside_the_figure() -> None:
    simulated = Measurement(time_s=2.0, energy_j=20.0, energy_error_j=1.0, flags=("simulated",))
    assert "20.0 ± 1.0 J (±5.0 %)  (simulated)" in text(simulated)


def test_unknown_is_a_dash_with_the_reason_and_no_source() -> None:
    blind = Measurement(time_s=2.0, energy_j=None, energy_error_j=None, flags=("the sampler died",))
    lines = text(blind).splitlines()
    assert "energy  - (the sampler died)" in lines[1]
    assert not any("source" in line or " 0 J" in line for line in lines)


def test_one_device_is_named_once() -> None:
    one = Measurement(time_s=2.0, energy_j=20.0, energy_error_j=1.0, energy_j_by_device={"gpu:GPU-1": 20.0})
    assert "  device  gpu:GPU-1" in text(one)


def test_a_device_that_is_not_in_the_sum_is_not_shown_as_if_it_were() -> None:
    flags = ("estimated, not in the sum: cpu:estimate",)
    both = Measurement(
        time_s=1.0,
        energy_j=5.0,
        energy_error_j=0.5,
        energy_j_by_device={"gpu:0": 5.0, "cpu:estimate": 2.0},
        flags=flags,
    )
    shown = text(both)
    assert "cpu:estimate  2.00 J  (estimated, not in the sum)" in shown
    assert "gpu:0         5.00 J\n" in shown
    assert "part of another" not in shown
    part = Measurement(
        time_s=1.0, energy_j=5.0, energy_error_j=0.5, energy_j_by_device={"cpu:0": 5.0, "cpu:0:core": 3.0}
    )
    assert "a device that is part of another one is listed, and counted once" in text(part)


def test_a_name_stays_on_its_line_and_changes_no_colours() -> None:
    head = text(COUNTED, title="a\x1b[31m\nb").splitlines()[0]
    assert head == r"joulelab: a\x1b[31m\nb"
