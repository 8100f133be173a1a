# SPDX-License-Identifier: Apache-2.0
"""The knob of the CPU packages: both terms are set, and all goes back, windows and switch too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from joulelab.errors import SensorError
from joulelab.hardware import cap_file
from joulelab.knobs.cpu_power_limit import CpuPowerLimit
from joulelab.knobs.knob import Site

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.caps import Machine


def knob(machine: Machine) -> CpuPowerLimit:
    made = CpuPowerLimit()
    made.site = Site(devices=machine.devices)
    return made


def test_both_terms_are_capped_and_put_back(machine: Machine) -> None:
    before = machine.state()
    cpu = knob(machine)
    with cpu.applied("120"):
        inside = machine.state()
        (row, other) = cpu.told()
    changed = {name: value for name, value in inside.items() if before[name] != value}
    assert changed == {
        f"intel-rapl:{n}/{name}": value
        for n in (0, 1)
        for name, value in (
            ("constraint_0_power_limit_uw", 120_000_000),
            ("constraint_1_power_limit_uw", 120_000_000),
            ("enabled", 1),
        )
    }
    assert machine.state() == before
    assert (row["uid"], row["found_w"], row["in_force_w"], row["default_w"]) == (
        "cpu:package-0",
        180.0,
        120.0,
        205.0,
    )
    assert other["uid"] == "cpu:package-1"
    assert machine.gpu_log() == []


def test_a_window_that_the_kernel_moves_is_put_back(machine: Machine) -> None:
    before = machine.state()
    with knob(machine).applied("120"):
        (machine.powercap / "intel-rapl:0" / "constraint_1_time_window_us").write_text("2440\n")
    assert machine.state() == before


def test_a_share_of_the_rated_power(machine: Machine) -> None:
    cpu = knob(machine)
    with cpu.applied("60%"):
        assert [row["in_force_w"] for row in cpu.told()] == [123.0, 123.0]


def test_without_a_rated_power_a_share_is_refused(machine: Machine) -> None:
    for file in machine.powercap.glob("*/constraint_*_max_power_uw"):
        file.unlink()
    assert "tells no default power, so 60% of it means nothing" in knob(machine).refused_here("60%")
    assert knob(machine).refused_here("120") == ""


def test_a_limit_that_is_locked_is_found_out(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may take a write and the firmware ignore it."""
    before = machine.state()
    monkeypatch.setattr(cap_file, "write", lambda path, value, name: None)
    with (
        pytest.raises(SensorError, match=r"120000000 was written .* 180000000 is read back\n.*locked"),
        knob(machine).applied("120"),
    ):
        pytest.fail("it is not in force")
    assert machine.state() == before


def test_no_permission_is_refused_while_planning(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    said = knob(machine).refused_here("120")
    assert "no permission to write" in said
    assert "sudo chgrp" in said
    assert "chmod g+w" in said


def test_a_machine_without_limits(tmp_path: Path) -> None:
    cpu = CpuPowerLimit()
    cpu.site = Site(devices=(f"rapl:{tmp_path}",))
    assert "no CPU package whose power can be capped was found" in cpu.refused_here("120")
