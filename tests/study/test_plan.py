# SPDX-License-Identifier: Apache-2.0
"""The plan is the product of the grid, in the order written; folders that exist are left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from joulelab.errors import RecordError
from joulelab.records import store
from joulelab.records.layout import StudyFolder
from joulelab.records.trial import TrialSpec
from joulelab.study.plan import plan, strangers, strangers_below, study_at, write_plan
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


@pytest.mark.parametrize("change", [{"repeats": 4}, {"grid": {"number": (2,), "ends": ("well",)}}])
def test_what_the_study_no_longer_asks_for_is_told_without_its_workload(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    folder = StudyFolder(tmp_path)
    planned = [trial.path.name for trial in write_plan(folder, plan(STUDY))]
    there = msgspec.structs.replace(STUDY, workload="not.installed:Anywhere")
    for trial in planned:
        spec = store.read_json(folder.trial(trial).spec, TrialSpec)
        store.write_json(folder.trial(trial).spec, msgspec.structs.replace(spec, workload=there.workload))
    store.write_json(folder.study, there)
    assert strangers_below(tmp_path) == frozenset()
    store.write_json(folder.study, msgspec.structs.replace(there, **change))
    stay = {planned[0]} if "grid" in change else set()
    assert strangers_below(tmp_path) == set(planned) - stay


def test_the_trials_of_a_small_variant_say_so_and_are_no_part_of_the_full_one(tmp_path: Path) -> None:
    small = msgspec.structs.replace(STUDY, small=True)
    assert all(spec.small for spec in plan(small))
    assert not {spec.folder_name() for spec in plan(small)} & {spec.folder_name() for spec in plan(STUDY)}
    folder = StudyFolder(tmp_path)
    write_plan(folder, plan(small))
    store.write_json(folder.study, STUDY)
    assert len(strangers_below(tmp_path)) == 4


def test_the_study_is_read_from_its_folder(tmp_path: Path) -> None:
    assert study_at(tmp_path) is None
    asked = msgspec.structs.replace(STUDY, against={"number": 1, "ends": "well"})
    store.write_json(StudyFolder(tmp_path).study, asked)
    assert study_at(tmp_path) == asked


def test_a_damaged_study_file_hides_no_trial(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    write_plan(folder, plan(STUDY))
    folder.study.write_text("{")
    assert strangers_below(tmp_path) == frozenset()


def test_a_spec_that_cannot_be_read_is_written_anew(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    first, *_ = write_plan(folder, plan(STUDY))
    first.spec.write_bytes(first.spec.read_bytes()[:20])
    write_plan(folder, plan(STUDY))
    assert store.read_json(first.spec, TrialSpec) == plan(STUDY)[0]


def test_a_disk_that_is_full_half_way_is_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, **more: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(type(tmp_path), "mkdir", full)
    with pytest.raises(RecordError, match="the disk is full"):
        write_plan(StudyFolder(tmp_path), plan(STUDY))
