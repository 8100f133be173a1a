# SPDX-License-Identifier: Apache-2.0
"""The plan is the product of the grid, in the order written; folders that exist are left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from joulelab.records import store
from joulelab.records.layout import StudyFolder
from joulelab.records.trial import TrialSpec
from joulelab.study.plan import plan, strangers, write_plan
from joulelab.study.study_file import Study

if TYPE_CHECKING:
    from pathlib import Path

STUDY = Study(
    name="s",
    workload="study_parts:Quick",
    parameters={"seconds": 0.5},
    grid={"number": (2, 1), "ends": ("well", "fails")},
    repeats=3,
    devices=("fake:x.json",),
)


def test_the_last_list_varies_fastest() -> None:
    specs = plan(STUDY)
    assert [(s.parameters["number"], s.parameters["ends"]) for s in specs] == [
        (2, "well"),
        (2, "fails"),
        (1, "well"),
        (1, "fails"),
    ]
    assert all((s.repeats, s.devices, s.parameters["seconds"]) == (3, ("fake:x.json",), 0.5) for s in specs)
    assert len({s.identity() for s in specs}) == 4


def test_without_a_grid_there_is_one_trial() -> None:
    assert len(plan(Study(name="s", workload="nt3"))) == 1


def test_folders_hold_their_specs_and_are_written_once(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    planned = write_plan(folder, plan(STUDY))
    assert [store.read_json(trial.spec, TrialSpec) for trial in planned] == plan(STUDY)
    before = [trial.spec.stat().st_mtime_ns for trial in planned]
    assert write_plan(folder, plan(STUDY)) == planned
    assert [trial.spec.stat().st_mtime_ns for trial in planned] == before
    assert strangers(folder, planned) == []
    assert strangers(folder, planned[1:]) == planned[:1]


def test_a_folder_that_a_death_left_without_spec_gets_one(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    (first, *_) = (folder.trial(spec.folder_name()) for spec in plan(STUDY))
    first.path.mkdir(parents=True)
    write_plan(folder, plan(STUDY))
    assert first.spec.exists()
