# SPDX-License-Identifier: Apache-2.0
"""The doctor's words."""

from __future__ import annotations

import json

from joulelab.hardware.cost import Cost
from joulelab.hardware.device import Limits, Problem
from joulelab.hardware.doctor import DeviceReport, Examination, SensorReport
from joulelab.report import doctor

COST = Cost(wall_s=0.0038, cpu_s=2.2e-6, reads=20)


def sensor(name: str, *, period_s: float | None = 0.1, is_bound: bool = False) -> SensorReport:
    return SensorReport(
        sensor=name,
        cost=COST,
        stated_period_s=0.1,
        period_s=period_s,
        period_is_upper_bound=is_bound,
        values=10,
        power_w=125.04,
    )


def device(
    *, source: str = "counter", simulated: bool = False, sensors: tuple[SensorReport, ...]
) -> DeviceReport:
    return DeviceReport(
        uid="gpu:GPU-1",
        name="A card",
        kind="gpu",
        source=source,
        scope="whole card",
        part_of="",
        simulated=simulated,
        gain_error=0.05,
        memory_power_w=39.0,
        cap=Limits(now_w=500.0, default_w=700.0, min_w=200.0, max_w=700.0),
        sensors=sensors,
        findings=("the counter did not move",),
    )


def examination(*devices: DeviceReport) -> Examination:
    problem = Problem(vendor="rapl", what="no permission", cure="sudo chmod a+r x\n  for good: a rule")
    return Examination(seconds=1.0, devices=devices, problems=(problem,), not_measured=("fans",))


def test_all_is_said() -> None:
    said = doctor.text(examination(device(sensors=(sensor("counter"), sensor("power", period_s=None)))))
    for words in (
        "gpu:GPU-1  A card  (counter)",
        "includes: whole card",
        "energy counter: moves every 100 ms (n = 10); 125.0 W just now",
        "a read costs 2.2 us of CPU, 3.8 ms in all (median of 20)",
        "power field: no second move seen (stated: every 100 ms)",
        "of which memory: 39.0 W",
        "power cap: 500 W in force; 200 to 700 W, default 700 W",
        "error of the sensor up to 5%",
        "ATTENTION: the counter did not move",
        "rapl: no permission",
        "    cure: sudo chmod a+r x\n          for good: a rule",
        "Not measured here\n  fans",
    ):
        assert words in said


def test_estimates_and_fakes_are_marked() -> None:
    said = doctor.text(
        examination(device(source="estimated", simulated=True, sensors=(sensor("counter", is_bound=True),)))
    )
    assert "(ESTIMATED, not measured, SIMULATED)" in said
    assert "error of the model" in said
    assert "moves at every read, 100 ms apart or less" in said


def test_nothing_found() -> None:
    assert "No device with a sensor was found" in doctor.text(examination())


def test_json_holds_the_same() -> None:
    content = json.loads(doctor.json(examination(device(sensors=(sensor("counter"),)))))
    assert content["devices"][0]["cap"]["max_w"] == 700.0
    assert content["problems"][0]["vendor"] == "rapl"
