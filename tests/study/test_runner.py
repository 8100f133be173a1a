# SPDX-License-Identifier: Apache-2.0
"""A study runs every trial exactly once, whatever happens to the processes that run it."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from joulelab.errors import RecordError
from joulelab.records.layout import StudyFolder, TrialFolder
from joulelab.records.store import load_records
from joulelab.study.plan import plan, strangers_below, write_plan
from joulelab.study.runner import run_study
from joulelab.study.study_file import Study

if TYPE_CHECKING:
    from joulelab.launch.progress import Progress
    from joulelab.records.parameter import Scalar

RUNNER = """
import json, sys
from pathlib import Path
import msgspec
from joulelab.study.runner import run_study
from joulelab.study.study_file import Study
study = msgspec.json.decode(sys.argv[1], type=Study)
summary = run_study(study, Path(sys.argv[2]), on_progress=lambda e: print(e.kind, e.name, flush=True))
print("RAN", summary.ran, flush=True)
sys.exit(summary.exit_code)
"""


def study_of(count: int = 3, *, seconds: float = 0.0, ends: tuple[Scalar, ...] = ("well",)) -> Study:
    return Study(
        name="quick",
        workload="study_parts:Quick",
        launcher="study_parts:QuickLauncher",
        parameters={"seconds": seconds},
        grid={"number": tuple(range(count)), "ends": ends},
    )


def start(study: Study, out: Path, *, device: str = "all") -> subprocess.Popen[str]:
    import msgspec

    source = Path(__file__).parents[2] / "src"
    return subprocess.Popen(
        [sys.executable, "-c", RUNNER, msgspec.json.encode(study).decode(), str(out)],
        env={
            **os.environ,
            "CUDA_VISIBLE_DEVICES": device,
            "PYTHONPATH": f"{source}{os.pathsep}{Path(__file__).parent}",
        },
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def line_of(process: subprocess.Popen[str], beginning: str) -> str:
    """Block until the process says a line that begins so."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(beginning):
            return line
    raise AssertionError(f"ended without a line {beginning!r}")


def starts(folder: TrialFolder) -> list[int]:
    path = folder.path / "starts.txt"
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def trials(out: Path) -> list[TrialFolder]:
    return [record.folder for record in load_records(out)]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_runs_all_and_then_nothing(weird_tmp_path: Path) -> None:
    said: list[Progress] = []
    first = run_study(study_of(3), weird_tmp_path, on_progress=said.append)
    assert (first.planned, first.ran, first.done, first.exit_code) == (3, 3, 3, 0)
    assert [event.kind for event in said].count("start") == 3
    steps = [event for event in said if event.kind == "step"]
    assert len(steps) == 3
    assert steps[1].settings == {"number": 1, "ends": "well"}
    assert steps[1].step is not None
    assert steps[1].step.phase == "train"
    assert (said[-1].kind, said[-1].ended, said[-1].state) == ("end", 3, "done")
    second = run_study(study_of(3), weird_tmp_path)
    assert (second.ran, second.done) == (0, 3)
    assert all(len(starts(folder)) == 1 for folder in trials(weird_tmp_path))


def test_what_a_worker_prints_for_itself_is_in_its_log(tmp_path: Path) -> None:
    run_study(study_of(1), tmp_path)
    (folder,) = trials(tmp_path)
    assert folder.log.read_text() == "a line of the user's own\n"


def test_failures_do_not_stop_a_study_and_are_tried_again(tmp_path: Path) -> None:
    study = study_of(1, ends=("fails", "fails once", "dies", "says nothing", "invalid", "well"))
    first = run_study(study, tmp_path)
    assert (first.ran, first.done, first.exit_code) == (6, 2, 1)
    assert sorted(re.split("[:,]", reason)[0] for reason in first.failed.values()) == [
        "ended without a result",
        "exit status 1",
        "exit status 1",
        "killed by SIGKILL",
    ]
    assert any("ValueError: this trial was asked to fail" in reason for reason in first.failed.values())
    assert list(first.invalid.values()) == ["NaN"]
    second = run_study(study, tmp_path)
    assert (second.ran, second.done, len(second.failed)) == (4, 3, 3)
    # What the first attempts left is still there.
    assert len(list(tmp_path.glob("trials/*/attempts/1/failed.json"))) == 4


def test_a_changed_plan_adds_and_lists_apart(tmp_path: Path) -> None:
    run_study(study_of(2), tmp_path)
    summary = run_study(study_of(3), tmp_path)
    assert (summary.ran, summary.done, summary.strangers) == (1, 3, ())
    summary = run_study(study_of(1), tmp_path)
    assert (summary.ran, summary.done, len(summary.strangers)) == (0, 1, 2)
    assert "2 trials in this folder are not in it any more" in summary.text()
    assert len(strangers_below(tmp_path)) == 2


@pytest.mark.timeout(60)
def test_kill_of_the_runner_loses_nothing_and_runs_nothing_twice(tmp_path: Path) -> None:
    study = study_of(3, seconds=0.5)
    with start(study, tmp_path) as process:
        line_of(process, "end")
        line_of(process, "step")
        process.kill()
    before = {folder.path.name: starts(folder) for folder in trials(tmp_path)}
    assert sorted(map(len, before.values())) == [0, 1, 1]
    summary = run_study(study, tmp_path)
    # The worker of the second trial outlived its runner; the new run waited for it, and took its result.
    assert (summary.done, summary.ran) == (3, 1)
    assert all(len(starts(folder)) == 1 for folder in trials(tmp_path))


@pytest.mark.timeout(60)
def test_kill_of_runner_and_worker_runs_the_trial_again(tmp_path: Path) -> None:
    study = study_of(2, seconds=0.5)
    with start(study, tmp_path) as process:
        name = line_of(process, "step").split()[1]
        process.kill()
    (pid,) = starts(StudyFolder(tmp_path).trial(name))
    os.kill(pid, signal.SIGKILL)
    summary = run_study(study, tmp_path)
    assert (summary.done, summary.ran) == (2, 2)
    assert len(starts(StudyFolder(tmp_path).trial(name))) == 2


@pytest.mark.timeout(60)
def test_two_runners_on_two_devices_share_twenty_trials(tmp_path: Path) -> None:
    study = study_of(20, seconds=0.05)
    with start(study, tmp_path, device="0") as one, start(study, tmp_path, device="1") as two:
        counts = [int(line_of(process, "RAN").split()[1]) for process in (one, two)]
        assert (one.wait(), two.wait()) == (0, 0)
    assert sum(counts) == 20
    assert min(counts) > 0
    assert all(len(starts(folder)) == 1 for folder in trials(tmp_path))


@pytest.mark.timeout(60)
def test_two_runners_on_the_same_devices_never_run_two_trials_at_once(tmp_path: Path) -> None:
    study = study_of(8, seconds=0.05)
    with start(study, tmp_path) as one, start(study, tmp_path) as two:
        counts = [int(line_of(process, "RAN").split()[1]) for process in (one, two)]
        assert (one.wait(), two.wait()) == (0, 0)
    assert sum(counts) == 8
    spans = sorted(json.loads((folder.path / "span.json").read_text()) for folder in trials(tmp_path))
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))


@pytest.mark.timeout(60)
def test_the_second_runner_takes_over_when_the_first_one_dies(tmp_path: Path) -> None:
    study = study_of(1, seconds=30.0)
    with start(study, tmp_path) as one:
        name = line_of(one, "step").split()[1]
        with start(study, tmp_path) as two:
            line_of(two, "wait")
            one.kill()
            (pid,) = starts(StudyFolder(tmp_path).trial(name))
            os.kill(pid, signal.SIGKILL)
            line_of(two, "start")
            line_of(two, "step")
            two.send_signal(signal.SIGTERM)
            assert two.wait() == 143
    assert len(starts(StudyFolder(tmp_path).trial(name))) == 2


@pytest.mark.timeout(60)
def test_a_trial_that_failed_beside_is_not_tried_a_second_time(tmp_path: Path) -> None:
    study = study_of(1, seconds=2.0, ends=("fails",))  # long enough for a second one to start beside it
    run_study(study, tmp_path)
    (folder,) = trials(tmp_path)
    with start(study, tmp_path) as one:
        line_of(one, "step")
        with start(study, tmp_path) as two:
            line_of(two, "wait")
            assert line_of(two, "RAN") == "RAN 0\n"
            assert (one.wait(), two.wait()) == (1, 1)
    # Once by the first command, once more by the two that ran beside each other.
    assert len(starts(folder)) == 2


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_marks_the_trial_and_the_same_command_goes_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    study = study_of(2, seconds=0.4)
    with start(study, tmp_path) as process:
        name = line_of(process, "step").split()[1]
        process.send_signal(number)
        assert process.wait() == 128 + number
    folder = StudyFolder(tmp_path).trial(name)
    assert json.loads(folder.failed.read_text())["state"] == "interrupted"
    assert not folder.claim.exists()
    assert all(gone(pid) for pid in starts(folder))
    summary = run_study(study, tmp_path)
    assert (summary.done, summary.ran) == (2, 2)


@pytest.mark.timeout(60)
def test_a_listener_that_fails_leaves_no_worker(tmp_path: Path) -> None:
    def listener(event: Progress) -> None:
        if event.kind == "step":
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run_study(study_of(1, seconds=30.0), tmp_path, on_progress=listener)
    (folder,) = trials(tmp_path)
    assert all(gone(pid) for pid in starts(folder))
    assert not folder.claim.exists()


def test_a_folder_that_is_a_file_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot be written"):
        run_study(study_of(1), tmp_path / "file" / "study")


def test_a_trial_folder_is_no_study(tmp_path: Path) -> None:
    run_study(study_of(1), tmp_path)
    (folder,) = trials(tmp_path)
    with pytest.raises(RecordError, match="is a trial, not a study"):
        run_study(study_of(1), folder.path)


def test_a_thousand_trials_plan_list_and_resume_in_two_seconds(tmp_path: Path) -> None:
    study = study_of(1000)
    began = time.process_time()
    planned = write_plan(StudyFolder(tmp_path), plan(study))
    states = [record.state for record in load_records(tmp_path)]
    assert states == ["planned"] * 1000
    took_s = time.process_time() - began
    for folder in planned[:-1]:
        (folder.path / "done").touch()
        folder.result.write_text('{"state":"done","time_s":1.0,"energy_j":1.0,"energy_error_j":0.1}')
    began = time.process_time()
    assert run_study(study, tmp_path).ran == 1
    took_s += time.process_time() - began
    assert took_s < 2.0


def test_a_small_variant_and_the_full_study_do_not_share_a_folder(tmp_path: Path) -> None:
    import msgspec

    full = study_of(1)
    small = msgspec.structs.replace(full, small=True)
    run_study(small, tmp_path)
    assert all(record.spec.small for record in load_records(tmp_path))
    with pytest.raises(RecordError, match="holds the small variant of a study, and this is the full study"):
        run_study(full, tmp_path)
    assert run_study(small, tmp_path).done == 1
