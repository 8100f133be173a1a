# SPDX-License-Identifier: Apache-2.0
"""Runs a study: every trial of its plan that is not done, one after the other, each exactly once."""

from __future__ import annotations

import contextlib
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from joulelab.errors import RecordError
from joulelab.launch import LAUNCHERS
from joulelab.launch.launcher import Launcher, Stopped
from joulelab.launch.progress import OnProgress, ignore
from joulelab.launch.queue import Queue
from joulelab.launch.turn import machine_turn, wait_for_turn
from joulelab.records import claim, plugin, store
from joulelab.records.layout import StudyFolder
from joulelab.study.attempt import attempt
from joulelab.study.listed import Listed, Story, listed
from joulelab.study.plan import plan, strangers, study_at, write_plan
from joulelab.study.queued import QueuedRun, name_of
from joulelab.study.summary import Summary, outcome, summarize

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from joulelab.study.study_file import Study

# How often to look after a trial that another machine runs: there is nothing here to wait on.
ELSEWHERE_S = 5.0


def run_study(
    study: Study, out: Path, *, on_progress: OnProgress = ignore, launcher: Launcher | None = None
) -> Summary:
    """Run what is not done of `study` in the folder `out`. The same call again goes on where this one ended.

    A trial that fails is marked and the others go on; it is tried again by the next call.
    """
    folder = StudyFolder(out)
    if (out / "spec.json").exists():
        raise RecordError(f"{out} is a trial, not a study", cure="give another folder with --out")
    before = study_at(out)
    if before is not None and before.small != study.small:
        raise RecordError(
            f"{out} holds {'the full study' if study.small else 'the small variant of a study'}, and this is "
            f"{'the small variant' if study.small else 'the full study'}",
            cure="give another folder with --out",
        )
    specs = plan(study)
    store.make_folder(folder.trials)
    with claim.locked(folder.lock):
        planned = write_plan(folder, specs)
        store.write_json(folder.study, study)
    if launcher is None:
        launcher = plugin.load(LAUNCHERS, study.launcher, what="launcher")()
        launcher.configure(study.options)
    trials = listed(planned, specs, varied=list(study.grid))
    left = [trial for trial in trials if not trial.folder.done.exists()]
    story = Story(of=len(trials), on_progress=on_progress, ended=len(trials) - len(left))
    outside = strangers(folder, planned)
    stopped = 0
    try:
        story.tell("plan")
        if outside:
            changed = f"the plan has changed: {len(outside)} trials in the folder are not in it any more"
            story.tell("note", text=changed)
        if isinstance(launcher, Queue):
            QueuedRun(home=out, name=name_of(study.name, out), queue=launcher, story=story).all(left)
        else:
            _Run(folder=folder, launcher=launcher, story=story).all(left)
    except Stopped as stop:
        stopped = stop.number
    except KeyboardInterrupt:
        stopped = int(signal.SIGINT)
    return summarize(planned, ran=story.ran, strangers=outside, stopped=stopped)


@dataclass
class _Run:
    """One pass over the trials of a plan, perhaps beside passes of other processes."""

    folder: StudyFolder
    launcher: Launcher
    story: Story

    def all(self, trials: Sequence[Listed]) -> None:
        left = list(trials)
        while left:
            left = [trial for trial in left if not self._settled(trial)]
            if left:
                # Only what other processes run is left. One of them may die: then it is ours.
                self._wait(left[0])

    def _settled(self, trial: Listed) -> bool:
        """Whether this run has nothing more to do for the trial; runs it where it can."""
        if self._over(trial):
            return True
        with contextlib.ExitStack() as held:
            inherit = [held.enter_context(self._machine(trial))] if self.launcher.here else []
            # While this process waited for the machine, another one may have dealt with the trial.
            if self._over(trial):
                return True
            mine = attempt(
                trial.folder,
                launcher=self.launcher,
                on_start=lambda: self.story.tell("start", trial),
                on_step=lambda step: self.story.tell("step", trial, step=step),
                inherit=inherit,
            )
        if mine:
            self.story.ran.append(trial.folder)
            self.story.ended += 1
            state, text = outcome(trial.folder)
            self.story.tell("end", trial, state=state, text=text)
        return mine

    def _machine(self, trial: Listed) -> contextlib.AbstractContextManager[int]:
        words = "another process runs a trial of this study on this machine"
        return machine_turn(self.folder, on_wait=lambda: self.story.tell("wait", trial, text=words))

    def _over(self, trial: Listed) -> bool:
        # Another process may have tried it while this run went on; a third try is for the next command.
        over = trial.folder.done.exists() or trial.failed_since()
        self.story.ended += over
        return over

    def _wait(self, trial: Listed) -> None:
        self.story.tell("wait", trial, text=f"another process runs {trial.folder.path.name}")
        wait_for_turn(trial.folder)
        if claim.is_alive(trial.folder):
            # Its runner is on another machine, where this lock may not reach.
            time.sleep(ELSEWHERE_S)
