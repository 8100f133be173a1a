# SPDX-License-Identifier: Apache-2.0
"""The limits of a CPU package, in a made-up /sys/class/powercap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from joulelab.hardware.caps_rapl import RaplCap
from joulelab.hardware.device import Limits
from tests.fakes.caps import package

if TYPE_CHECKING:
    from pathlib import Path


def test_packages_and_nothing_else(tmp_path: Path) -> None:
    for number in (0, 1):
        package(tmp_path, number)
    package(tmp_path, 2)
    (tmp_path / "intel-rapl:2" / "name").write_text("psys\n", encoding="ascii")
    dram = package(tmp_path, 0, kind="intel-rapl:1")
    (dram / "name").write_text("dram\n", encoding="ascii")
    found = RaplCap.find(str(tmp_path))
    assert [cap.uid for cap in found.caps] == ["cpu:package-0", "cpu:package-1"]
    assert found.caps[0].limits() == Limits(now_w=180.0, default_w=205.0, min_w=0.0, max_w=410.0)
    assert found.caps[0].argument == str(tmp_path)


def test_all_that_a_cap_may_move_is_noted(tmp_path: Path) -> None:
    package(tmp_path)
    (cap,) = RaplCap.find(str(tmp_path)).caps
    assert cap.controls() == {
        "constraint_0_power_limit_uw": 180_000_000,
        "constraint_1_power_limit_uw": 215_000_000,
        "constraint_0_time_window_us": 999_424,
        "constraint_1_time_window_us": 7812,
        "enabled": 0,
    }
    wanted = cap.wanted(120.0)
    assert wanted == {
        "constraint_0_power_limit_uw": 120_000_000,
        "constraint_1_power_limit_uw": 120_000_000,
        "enabled": 1,
    }
    assert list(wanted)[-1] == "enabled", "no other limit is ever switched on"
    assert cap.same("constraint_0_power_limit_uw", 120_000_000, 119_875_000), "in steps of 0.125 W"
    assert not cap.same("enabled", 0, 1)
    assert not cap.same("constraint_1_time_window_us", 7812, 7813)


def test_terms_go_by_their_names_not_their_numbers(tmp_path: Path) -> None:
    folder = package(tmp_path)
    (folder / "constraint_0_name").write_text("short_term\n", encoding="ascii")
    (folder / "constraint_1_name").write_text("long_term\n", encoding="ascii")
    (cap,) = RaplCap.find(str(tmp_path)).caps
    assert cap.limits().now_w == 215.0


def test_the_twin_of_a_package_holds_it_lower(tmp_path: Path) -> None:
    package(tmp_path)
    twin = package(tmp_path, 0, kind="intel-rapl-mmio")
    (twin / "constraint_0_power_limit_uw").write_text("150000000\n", encoding="ascii")
    (cap,) = RaplCap.find(str(tmp_path)).caps
    assert cap.limits().now_w == 180.0, "it is switched off"
    (twin / "enabled").write_text("1\n", encoding="ascii")
    assert cap.limits().now_w == 150.0
    assert "the lower of the two holds" in cap.notes()[0]


def test_a_package_without_limits_has_no_cap(tmp_path: Path) -> None:
    """As on AMD, where the kernel shows the energy alone."""
    folder = package(tmp_path)
    for file in folder.glob("constraint_*"):
        file.unlink()
    found = RaplCap.find(str(tmp_path))
    assert not found.caps
    assert "no CPU package whose power can be capped" in found.problems[0].what
