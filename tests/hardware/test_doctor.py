# SPDX-License-Identifier: Apache-2.0
"""What the doctor finds out by itself about sensors that are known here."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from joulelab.hardware.doctor import Examination, SensorReport, examine

if TYPE_CHECKING:
    from tests.fakes.nvml import FakeNvml


def of_fake(folder: Path, seconds: float = 0.6, **group: Any) -> Examination:
    file = folder / "node.json"
    file.write_text(json.dumps(group), encoding="utf-8")
    return examine(names=(f"fake:{file}",), seconds=seconds)


def sensors(examination: Examination) -> dict[str, SensorReport]:
    (device,) = examination.devices
    return {s.sensor: s for s in device.sensors}


def test_the_period_of_a_counter_is_found_not_believed(tmp_path: Path) -> None:
    found = of_fake(tmp_path, shape="constant", load={"power_w": 200.0}, counter_period_s=0.05)
    counter = sensors(found)["counter"]
    assert counter.period_s == pytest.approx(0.05, abs=0.01)
    assert counter.power_w == pytest.approx(200.0, rel=0.1)
    assert 9 <= counter.values <= 13
    assert not counter.period_is_upper_bound
    assert not found.devices[0].findings


def test_a_read_that_costs_is_told(tmp_path: Path) -> None:
    cost = sensors(of_fake(tmp_path, seconds=0.1, read_cost_s=0.003))["counter"].cost
    assert 0.003 <= cost.wall_s < 0.02
    assert 0.001 <= cost.cpu_s <= cost.wall_s
    assert cost.reads == 20


def test_a_wrap_while_it_is_watched(tmp_path: Path) -> None:
    found = of_fake(
        tmp_path, shape="constant", load={"power_w": 100.0}, counter_period_s=0.02, counter_range_j=15.0
    )
    assert sensors(found)["counter"].power_w == pytest.approx(100.0, rel=0.1)


def test_a_stuck_counter_is_a_finding(tmp_path: Path) -> None:
    found = of_fake(tmp_path, seconds=0.3, stuck_after_s=0.0)
    assert sensors(found)["counter"].period_s is None
    assert "did not move" in found.devices[0].findings[0]


def test_a_buffer_and_a_power_field(tmp_path: Path) -> None:
    found = of_fake(
        tmp_path, seconds=0.3, shape="ramp", counter_period_s=None, buffer_period_s=0.02, power_period_s=0.05
    )
    by_name = sensors(found)
    assert by_name["buffer"].period_s == pytest.approx(0.02, abs=0.002)
    assert by_name["buffer"].values >= 12
    assert by_name["power"].period_s == pytest.approx(0.05, abs=0.015)


def test_a_lost_device_becomes_a_problem(tmp_path: Path) -> None:
    found = of_fake(tmp_path, seconds=0.3, lost_after_s=0.1)
    assert not found.devices
    assert any("no longer answers" in p.what for p in found.problems)


def test_what_is_not_measured_is_said(tmp_path: Path) -> None:
    gpu_only = of_fake(tmp_path, seconds=0.05)
    assert [w.split(":")[0] for w in gpu_only.not_measured[:-1]] == ["CPUs", "DRAM"]
    assert "power supply" in gpu_only.not_measured[-1]
    assert not of_fake(tmp_path, seconds=0.05, kind="node").not_measured
    estimated = examine(names=("estimate",), seconds=0.05)
    assert [w.split(":")[0] for w in estimated.not_measured[:-1]] == ["GPUs", "CPUs", "DRAM"]


def test_an_nvidia_board(nvml: FakeNvml) -> None:
    nvml.set(gpus=1)
    found = examine(names=("nvidia",), seconds=0.45)
    by_name = sensors(found)
    assert by_name["counter"].period_s == pytest.approx(0.1, abs=0.02)
    assert by_name["buffer"].period_s == pytest.approx(0.02, abs=0.002)
    assert found.devices[0].memory_power_w == 39.0
    cap = found.devices[0].cap
    assert cap is not None
    assert cap.max_w == 700.0


def test_it_becomes_plain_data(tmp_path: Path) -> None:
    found = of_fake(tmp_path, seconds=0.05)
    again = json.loads(json.dumps(dataclasses.asdict(found)))
    assert again["devices"][0]["uid"] == "gpu:fake-node-0"
    assert again["devices"][0]["sensors"][0]["cost"]["reads"] == 20
