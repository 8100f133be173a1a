# SPDX-License-Identifier: Apache-2.0
"""One trial from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from joulelab.errors import InputError, RecordError, TrialError
from joulelab.launch.turn import turn
from joulelab.records.layout import TrialFolder
from joulelab.records.trial import TrialSpec
from joulelab.study.run import run

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.launch.progress import Step

LAUNCHER = "study_parts:QuickLauncher"


def spec_of(**parameters: object) -> TrialSpec:
    return TrialSpec(workload="study_parts:Quick", parameters=parameters)  # type: ignore[arg-type]


def test_runs_once_and_returns_the_record(tmp_path: Path) -> None:
    steps: list[Step] = []
    record = run(spec_of(), out=tmp_path, launcher=LAUNCHER, on_progress=steps.append)
    assert record.state == "done"
    assert record.result is not None
    assert record.result.energy_j == 5.0
    assert [step.phase for step in steps] == ["train"]
    run(spec_of(), out=tmp_path, launcher=LAUNCHER)
    assert len((tmp_path / "starts.txt").read_text().splitlines()) == 1


def test_a_failure_is_in_the_record(tmp_path: Path) -> None:
    record = run(spec_of(ends="fails"), out=tmp_path, launcher=LAUNCHER)
    assert record.state == "failed"
    assert "asked to fail" in record.failure["reason"]


def test_another_trial_in_the_folder_is_left_alone(tmp_path: Path) -> None:
    run(spec_of(), out=tmp_path, launcher=LAUNCHER)
    with pytest.raises(RecordError, match="holds another trial"):
        run(spec_of(number=2), out=tmp_path, launcher=LAUNCHER)


def test_a_trial_that_another_process_runs(tmp_path: Path) -> None:
    with turn(TrialFolder(tmp_path)), pytest.raises(TrialError, match="run by another process"):
        run(spec_of(), out=tmp_path, launcher=LAUNCHER)


def test_nothing_is_written_for_a_spec_that_is_not_legal(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="number = 'x'"):
        run(spec_of(number="x"), out=tmp_path / "t", launcher=LAUNCHER)
    assert not (tmp_path / "t").exists()
