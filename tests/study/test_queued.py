# SPDX-License-Identifier: Apache-2.0
"""Trials in a queue that the test moves by hand; on a real one they are in tests/launch/test_slurm.py."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from joulelab.errors import TrialError
from joulelab.launch.job_note import JobNote, read_note, write_note
from joulelab.launch.queue import OVER, RUNNING, WAITING, JobState, NoAnswerError, Queue
from joulelab.records import claim, store
from joulelab.records.layout import TrialFolder
from joulelab.study.queued import name_of
from joulelab.study.runner import run_study
from joulelab.study.study_file import Study

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from joulelab.launch.progress import Progress

State = JobState | Exception


class Scripted(Queue):
    """Each job stands as its list says, an item a look; the last item stays."""

    every_s = 0.0
    settle_s = 0.0
    patience_s = 0.0

    def __init__(self, *states: State, on_look: Callable[[TrialFolder], None] = lambda folder: None) -> None:
        self.states = list(states)
        self.on_look = on_look
        self.wanted: list[int] = []
        self.folders: list[TrialFolder] = []
        self.energies: list[JobNote] = []
        self.refuses_after = 99

    def submit(
        self, trials: Mapping[TrialFolder, int], *, jobs: Path, name: str
    ) -> Iterator[Mapping[TrialFolder, JobNote]]:
        for number, (folder, workers) in enumerate(trials.items()):
            assert not folder.job.exists()
            if number == self.refuses_after:
                raise TrialError("the queue is full")
            self.wanted.append(workers)
            self.folders.append(folder)
            yield {folder: JobNote(scheduler="scripted", job=str(len(self.folders)), name=name)}

    def look(self, notes: Collection[JobNote]) -> Mapping[JobNote, JobState]:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        for folder in self.folders:
            self.on_look(folder)
        if isinstance(state, Exception):
            raise state
        return dict.fromkeys(notes, state)

    def cancel(self, notes: Collection[JobNote]) -> None:
        raise AssertionError("nobody asked to stop")

    def why(self, note: JobNote, state: JobState, *, said: str) -> str:
        return f"{state.state} of job {note.job}{said}"

    def output(self, note: JobNote, *, jobs: Path) -> Path:
        return jobs / f"{note.job}.txt"

    def keep_energy(self, folder: TrialFolder, note: JobNote) -> None:
        self.energies.append(note)


WAITS, RUNS = JobState(phase=WAITING, reason="Priority"), JobState(phase=RUNNING, nodes="n1")
ENDED = JobState(phase=OVER, state="COMPLETED")
STUDY = Study(
    name="quick",
    workload="study_parts:Quick",
    parameters={"seconds": 0.0, "ends": "well"},
    grid={"number": (1, 2)},
)


def finish(folder: TrialFolder) -> None:
    store.write_json(folder.result, {"state": "done", "time_s": 1.0, "energy_j": 1.0, "energy_error_j": 0.1})
    folder.done.touch()


def test_the_story_of_two_jobs(tmp_path: Path) -> None:
    said: list[Progress] = []
    queue = Scripted(WAITS, WAITS, RUNS, RUNS, ENDED, on_look=finish)
    summary = run_study(STUDY, tmp_path, launcher=queue, on_progress=said.append)
    assert (summary.done, summary.ran) == (2, 2)
    assert queue.wanted == [1, 1]
    assert len(queue.energies) == 2
    assert [(event.kind, event.index, event.text) for event in said] == [
        ("plan", 0, ""),
        ("note", 0, f"queued as {name_of('quick', tmp_path)}: jobs 1, 2"),
        ("note", 0, "jobs that wait: 2 (Priority)"),
        ("start", 1, ""),
        ("start", 2, ""),
        ("end", 1, ""),
        ("end", 2, ""),
    ]


def test_jobs_that_leave_no_word(tmp_path: Path) -> None:
    queue = Scripted(RUNS, JobState(phase=OVER, state="FAILED"))
    summary = run_study(STUDY, tmp_path, launcher=queue)
    assert sorted(summary.failed.values()) == ["FAILED of job 1", "FAILED of job 2"]
    # The next command tries again, and what was said of the first attempt is no news.
    again = Scripted(RUNS, JobState(phase=OVER, state="NODE_FAIL"))
    for folder in queue.folders:
        folder.failed.unlink()
    assert sorted(run_study(STUDY, tmp_path, launcher=again).failed.values()) == [
        "NODE_FAIL of job 1",
        "NODE_FAIL of job 2",
    ]


def test_an_old_failure_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    run_study(STUDY, tmp_path, launcher=Scripted(RUNS, JobState(phase=OVER, state="FAILED")))
    queue = Scripted(RUNS, JobState(phase=OVER, state="TIMEOUT"))
    assert sorted(run_study(STUDY, tmp_path, launcher=queue).failed.values()) == [
        "TIMEOUT of job 1",
        "TIMEOUT of job 2",
    ]


def test_a_refusal_keeps_the_jobs_that_were_granted(tmp_path: Path) -> None:
    queue = Scripted(WAITS)
    queue.refuses_after = 1
    with pytest.raises(TrialError, match="the queue is full"):
        run_study(STUDY, tmp_path, launcher=queue)
    assert read_note(queue.folders[0]) is not None
    more = Scripted(WAITS, RUNS, ENDED, on_look=finish)
    more.folders = queue.folders
    summary = run_study(STUDY, tmp_path, launcher=more)
    # The granted one was found again, and only the other asked for.
    assert (summary.done, summary.ran, len(more.wanted)) == (2, 1, 1)


def test_a_scheduler_that_is_silent_for_long(tmp_path: Path) -> None:
    said: list[Progress] = []
    silence = NoAnswerError("no answer", cure="wait")
    queue = Scripted(WAITS, silence, RUNS, silence, silence, silence)
    with pytest.raises(
        NoAnswerError, match=r"for 0 min now\n  cure: wait; the jobs stay, and the same command"
    ):
        run_study(STUDY, tmp_path, launcher=queue, on_progress=said.append)
    assert [event.text for event in said].count("no answer; asking again") == 2


def test_the_claim_of_a_job_that_is_over_is_void(tmp_path: Path) -> None:
    """Its node died, and only this machine is here to say so."""
    import msgspec

    queue = Scripted(RUNS, JobState(phase=OVER, state="NODE_FAIL"))

    def claimed(folder: TrialFolder) -> None:
        note = read_note(folder)
        assert note is not None
        holder = msgspec.structs.replace(claim.this_process(), host="n1", job=note.job)
        store.write_json(folder.claim, holder)

    queue.on_look = claimed
    run_study(STUDY, tmp_path, launcher=queue)
    assert not any(folder.claim.exists() for folder in queue.folders)


def test_another_process_runs_a_trial(tmp_path: Path) -> None:
    import msgspec

    run_study(STUDY, tmp_path, launcher=Scripted(RUNS, ENDED, on_look=lambda folder: None))
    folders = [TrialFolder(path) for path in sorted((tmp_path / "trials").iterdir())]
    store.write_json(folders[0].claim, msgspec.structs.replace(claim.this_process(), host="n7"))
    said: list[Progress] = []
    queue = Scripted(ENDED, RUNS, ENDED, on_look=finish)
    summary = run_study(STUDY, tmp_path, launcher=queue, on_progress=said.append)
    assert (summary.done, len(queue.wanted)) == (1, 1)
    assert f"another process runs {folders[0].path.name}" in [event.text for event in said]


def test_a_job_that_another_study_asked_for_at_the_same_time_is_watched_instead(tmp_path: Path) -> None:
    other = JobNote(scheduler="scripted", job="77")
    looks: list[int] = []

    def look(folder: TrialFolder) -> None:
        looks.append(1)
        if len(looks) < 3:
            write_note(folder, other)  # its job was the first to begin
        else:
            finish(folder)

    queue = Scripted(ENDED, on_look=look)
    summary = run_study(STUDY, tmp_path, launcher=queue)
    assert (summary.done, queue.energies) == (2, [other, other])


def test_workers_are_asked_for_and_jobs_have_a_name_of_their_folder(tmp_path: Path) -> None:
    queue = Scripted(RUNS, ENDED, on_look=finish)
    import msgspec

    run_study(msgspec.structs.replace(STUDY, knobs={"workers": 4}), tmp_path, launcher=queue)
    assert queue.wanted == [4, 4]
    assert name_of("a study", tmp_path) == name_of("a study", tmp_path)
    assert name_of("a study", tmp_path) != name_of("a study", tmp_path / "b")
    assert name_of("a study" * 30, tmp_path)[-7:] == name_of("a", tmp_path)[-7:]


def test_a_failure_is_written_as_a_record(tmp_path: Path) -> None:
    queue = Scripted(JobState(phase=OVER))
    run_study(STUDY, tmp_path, launcher=queue)
    # It never began, and the scheduler knows it no more.
    assert json.loads(queue.folders[0].failed.read_text())["state"] == "interrupted"


def test_what_ended_while_nobody_looked_is_not_asked_for_again(tmp_path: Path) -> None:
    queue = Scripted(RUNS, NoAnswerError("no answer"))
    with pytest.raises(NoAnswerError):
        run_study(STUDY, tmp_path, launcher=queue)
    later = Scripted(ENDED, on_look=finish)
    later.folders = queue.folders
    said: list[Progress] = []
    summary = run_study(STUDY, tmp_path, launcher=later, on_progress=said.append)
    assert (summary.done, summary.ran, later.wanted) == (2, 0, [])
