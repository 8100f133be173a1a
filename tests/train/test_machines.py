# SPDX-License-Identifier: Apache-2.0
"""Workers on several machines: the energy of each is in the sum, files do not meet, clocks are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from joulelab.launch.local import Local
from joulelab.records import ranks, store
from joulelab.records.layout import TrialFolder
from joulelab.records.measurement import Measurement
from joulelab.records.trial import Result, TrialSpec
from joulelab.study.attempt import attempt
from joulelab.train.nodes import over_machines
from tests.train.machines import AHEAD_NS
from tests.train.train_parts import KNOBS

if TYPE_CHECKING:
    from pathlib import Path


def cost(energy_j: float | None, time_s: float = 2.0, **more: object) -> Measurement:
    error_j = None if energy_j is None else 1.0
    made = Measurement(
        time_s=time_s,
        energy_j=energy_j,
        energy_error_j=error_j,
        energy_j_by_device={"gpu:0": energy_j or 0.0},
    )
    return msgspec.structs.replace(made, **more)


def test_joules_add_up_and_time_is_that_of_the_longest() -> None:
    both = over_machines([cost(10.0), cost(30.0, 4.0, flags=("short",))], ["a", "b"])
    assert (both.time_s, both.energy_j, both.energy_error_j, both.power_w) == (4.0, 40.0, 2.0, 10.0)
    assert both.energy_j_by_device == {"a/gpu:0": 10.0, "b/gpu:0": 30.0}
    assert both.flags == ("b: short",)


def test_sources_that_differ_make_no_sum() -> None:
    both = over_machines([cost(10.0), cost(30.0, source="estimated")], ["a", "b"])
    assert both.energy_j is None
    assert any("different sources" in flag for flag in both.flags)


def test_a_machine_without_a_figure_leaves_none() -> None:
    assert over_machines([cost(10.0), cost(None)], ["a", "b"]).energy_j is None


def test_two_machines_make_one_record(weird_tmp_path: Path) -> None:
    folder = TrialFolder(weird_tmp_path / "trial")
    folder.path.mkdir(parents=True)
    knobs = {**KNOBS, "workers": 2, "timeline_every": 2}
    asked = TrialSpec(workload="tests.train.rank_parts:Dealt", knobs=knobs, devices=("estimate",))
    store.write_json(folder.spec, asked)
    launcher = Local()
    launcher.module = "tests.train.machines"
    attempt(folder, launcher=launcher)
    assert folder.done.exists(), folder.log.read_text()
    found = store.read_json(folder.result, Result)
    assert set(found.energy_j_by_device) == {"n0/cpu:estimate", "n1/cpu:estimate"}
    assert found.energy_j == pytest.approx(sum(found.energy_j_by_device.values()))
    (repeat,) = found.repeats
    assert set(repeat.phases["train"].energy_j_by_device) == {"n0/cpu:estimate", "n1/cpu:estimate"}
    first, second = ranks.read(folder)
    own = [record.repeats[0].total.energy_j for record in (first, second)]
    assert own == [repeat.total.energy_j] * 2, "each worker's record holds the sum over machines, too"
    assert {line["rank"] for line in store.read_lines(folder.windows)} == {0}
    assert {line["rank"] for line in store.read_lines(TrialFolder(folder.node("n1")).windows)} == {1}
    assert [clock["offset_ns"] for clock in first.clocks] == [0, 0]
    for clock in second.clocks:
        assert clock["offset_ns"] == pytest.approx(-AHEAD_NS, abs=clock["error_ns"])
        assert clock["error_ns"] < 5e6
