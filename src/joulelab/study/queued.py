# SPDX-License-Identifier: Apache-2.0
"""Runs a study on a cluster: every trial that is not done is queued at once, each by one job, and watched.

A trial belongs to the job that its folder names, for as long as the scheduler knows that job to wait or to
run. So this process may end at any time, and the next one goes on with the jobs that are there.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from joulelab.errors import JouleLabError
from joulelab.launch.job_note import read_note, write_note
from joulelab.launch.job_script import job_name
from joulelab.launch.launcher import Stopped
from joulelab.launch.queue import OVER, RUNNING, WAITING, JobState, NoAnswerError, Queue
from joulelab.launch.watched import last_step
from joulelab.records import claim, store
from joulelab.records.layout import SCHEMA
from joulelab.study.asked import Asked, asked
from joulelab.study.attempt import last_words
from joulelab.study.summary import outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from joulelab.launch.job_note import JobNote
    from joulelab.launch.progress import Step
    from joulelab.study.listed import Listed, Story

# Of jobs that ended by themselves a word may still be on its way from the node; a killed one leaves none.
ENDED_BY_ITSELF = ("COMPLETED", "FAILED")
# While jobs are being cancelled somebody waits at the terminal.
CANCELLING_S = 1.0


def name_of(study: str, home: Path) -> str:
    """The name of the jobs: people find them by the study, this program by its folder."""
    return f"{job_name(study)[:40]}-{hashlib.sha256(os.fsencode(home.absolute())).hexdigest()[:6]}"


@dataclass
class _Job:
    """A trial and the job that has it."""

    trial: Listed
    note: JobNote
    mine: bool  # asked for by this run; otherwise found
    phase: str = WAITING
    begun: bool = False
    seen: JobState | None = None  # when it last ran
    step: Step | None = None
    over_since_s: float | None = None


@dataclass
class QueuedRun:
    """One pass over the trials of a plan."""

    home: Path  # of the scripts and the lock: the folder of the study, or of the one trial
    name: str
    queue: Queue
    story: Story
    _jobs: dict[str, _Job] = field(default_factory=dict)  # by the name of the trial's folder
    _said: str = ""
    _silent_since_s: float | None = None

    @property
    def scripts(self) -> Path:
        return self.home / "jobs"

    def all(self, trials: Sequence[Listed]) -> None:
        """Until every trial has ended, or a signal asks to stop."""
        with asked() as request:
            with claim.locked(self.home / ".jobs.lock"):
                left = self._attach(trials)
                if left and not request.number:
                    self._submit(left)
            while self._jobs:
                if request.number:
                    self._stop(request)
                self._look()
                if self._jobs:
                    request.wait(self.queue.every_s)

    # ---- begin ---------------------------------------------------------------------------------------------

    def _attach(self, trials: Sequence[Listed]) -> list[Listed]:
        """Go on with the jobs that are there; the trials that have none."""
        notes = {trial.folder: note for trial in trials if (note := read_note(trial.folder)) is not None}
        states = self.queue.look(set(notes.values())) if notes else {}
        left = []
        for trial in trials:
            note = notes.get(trial.folder)
            if note is not None and states[note].phase != OVER:
                self._jobs[trial.folder.path.name] = _Job(trial, note, mine=False)
                continue
            if note is not None:
                self._release(trial, note)
            if trial.folder.done.exists():
                self.story.ended += 1  # while this process waited for its turn to ask
            elif claim.is_alive(trial.folder) or claim.is_locked(trial.folder):
                self.story.tell("note", trial, text=f"another process runs {trial.folder.path.name}")
            else:
                left.append(trial)
        if self._jobs:
            self.story.tell("note", text=f"going on with jobs in the queue: {_some(self._jobs.values())}")
        return left

    def _submit(self, trials: Sequence[Listed]) -> None:
        wanted = {trial.folder: int(trial.spec.knobs.get("workers", 1)) for trial in trials}
        by_folder = {trial.folder: trial for trial in trials}
        for folder in wanted:
            # A job may begin before its note is written; it must not find that of an earlier one.
            folder.job.unlink(missing_ok=True)
        for notes in self.queue.submit(wanted, jobs=self.scripts, name=self.name):
            for folder, note in notes.items():
                write_note(folder, note)
                self._jobs[folder.path.name] = _Job(by_folder[folder], note, mine=True)
        mine = [job for job in self._jobs.values() if job.mine]
        self.story.tell("note", text=f"queued as {self.name}: {_some(mine)}")

    # ---- watch ---------------------------------------------------------------------------------------------

    def _look(self, *, stopping: bool = False) -> None:
        """Ask once, for all jobs together."""
        try:
            states = self.queue.look({job.note for job in self._jobs.values()})
        except NoAnswerError as silence:
            self._bear(silence)
            return
        self._silent_since_s = None
        for job in list(self._jobs.values()):
            self._see(job, states[job.note], stopping=stopping)
        if not stopping:
            self._tell_why_they_wait(states)

    def _see(self, job: _Job, state: JobState, *, stopping: bool) -> None:
        if state.phase == OVER:
            self._end(job, state, stopping=stopping)
        elif state.phase == RUNNING:
            job.seen = state
            if not job.begun:
                job.begun = True
                self.story.tell("start", job.trial)
            step = last_step(job.trial.folder, job.trial.spec)
            if step is not None and step != job.step:
                job.step = step
                self.story.tell("step", job.trial, step=step)
        elif job.phase == RUNNING:
            self._tell_of_another_start(job)
        job.phase = state.phase

    def _bear(self, silence: NoAnswerError) -> None:
        now_s = time.monotonic()
        if self._silent_since_s is None:
            self._silent_since_s = now_s
            self.story.tell("note", text=f"{silence.message}; asking again")
        elif now_s - self._silent_since_s > self.queue.patience_s:
            raise NoAnswerError(
                f"{silence.message}, for {self.queue.patience_s / 60:.0f} min now",
                cure=f"{silence.cure}; the jobs stay, and the same command goes on with them",
            ) from silence

    def _tell_of_another_start(self, job: _Job) -> None:
        found = self.queue.trouble(job.seen) if job.seen else ""
        because = f": {found}" if found else ""
        name = job.trial.folder.path.name
        self.story.tell("note", job.trial, text=f"job {job.note.job} of {name} waits to run again{because}")

    def _tell_why_they_wait(self, states: Mapping[JobNote, JobState]) -> None:
        known = [states[job.note] for job in self._jobs.values() if job.note in states]
        waiting = [state for state in known if state.phase == WAITING]
        if not waiting:
            self._said = ""
            return
        reasons = Counter(state.reason for state in waiting if state.reason)
        said = ", ".join(sorted(reasons))
        if said and said != self._said:
            self._said = said
            text = ", ".join(
                f"{count} ({reason}{self.queue.cure_of(reason)})" for reason, count in sorted(reasons.items())
            )
            self.story.tell("note", text=f"jobs that wait: {text}")

    # ---- end -----------------------------------------------------------------------------------------------

    def _end(self, job: _Job, state: JobState, *, stopping: bool) -> None:
        """The job is over. What it has left decides, not its exit status."""
        folder = job.trial.folder
        other = read_note(folder)
        if other is not None and other != job.note and not folder.done.exists():
            # Asked for by another process at the same time, and it was the first to begin.
            job.note, job.phase = other, WAITING
            return
        if not self._has_word(job) and state.state in ENDED_BY_ITSELF and not self._has_settled(job):
            return
        del self._jobs[folder.path.name]
        self._release(job.trial, job.note)
        if stopping and not job.begun and not job.trial.failed_since() and not folder.done.exists():
            folder.job.unlink(missing_ok=True)  # as if it had never been asked for
            return
        if not self._has_word(job):
            self._mark(job, state, stopping=stopping)
        if folder.done.exists():
            self.queue.keep_energy(folder, job.note)
        if job.mine:
            self.story.ran.append(folder)
        self.story.ended += 1
        word, text = outcome(folder)
        self.story.tell("end", job.trial, state=word, text=text)

    def _has_word(self, job: _Job) -> bool:
        folder = job.trial.folder
        # Reading the folder makes a network file system ask its server what is in it now.
        names = {entry.name for entry in os.scandir(folder.path)}
        return folder.done.name in names or (folder.failed.name in names and job.trial.failed_since())

    def _has_settled(self, job: _Job) -> bool:
        now_s = time.monotonic()
        if job.over_since_s is None:
            job.over_since_s = now_s
        return now_s - job.over_since_s >= self.queue.settle_s

    def _mark(self, job: _Job, state: JobState, *, stopping: bool) -> None:
        """failed.json, where the worker could not write it itself."""
        cancelled = stopping or state.state == "CANCELLED" or not (state.state or job.begun)
        reason = "stopped on request" if stopping else self._why(job, state)
        content = {"schema": SCHEMA, "state": "interrupted" if cancelled else "failed", "reason": reason}
        store.write_json(job.trial.folder.failed, {**content, "exit_code": 1})

    def _why(self, job: _Job, state: JobState) -> str:
        log, output = job.trial.folder.log, self.queue.output(job.note, jobs=self.scripts)
        return self.queue.why(job.note, state, said=last_words(log) or last_words(output))

    def _release(self, trial: Listed, note: JobNote) -> None:
        """A job that was killed leaves its claim, which another machine would believe for ever."""
        if claim.job_of(trial.folder) == note.job:
            claim.release(trial.folder)

    # ---- stop ----------------------------------------------------------------------------------------------

    def _stop(self, request: Asked) -> None:
        """Cancel the jobs, wait until what they have set is put back; a closed terminal cancels nothing."""
        number = request.number
        if number == signal.SIGHUP:
            self.story.tell("note", text="the jobs stay in the queue; the same command goes on with them")
            raise Stopped(number)
        self.story.tell("note", text=f"cancelling: {_some(self._jobs.values())}")
        try:
            self.queue.cancel([job.note for job in self._jobs.values()])
            until_s = time.monotonic() + self.queue.ending_s
            while self._jobs and time.monotonic() < until_s and request.count < 2:
                self._look(stopping=True)
                if self._jobs:
                    request.wait(min(CANCELLING_S, self.queue.every_s))
        except JouleLabError as error:
            self.story.tell("note", text=f"not cancelled: {error.message}")
        if self._jobs:
            self.story.tell(
                "note", text=f"not over yet: {_some(self._jobs.values())}; the next command looks"
            )
        raise Stopped(number)


def _some(jobs: Collection[_Job]) -> str:
    """The first few by their number, and how many there are."""
    names = [job.note.job for job in jobs]
    more = f", ... ({len(names)} in all)" if len(names) > 3 else ""
    return f"{'job' if len(names) == 1 else 'jobs'} {', '.join(names[:3])}{more}"
