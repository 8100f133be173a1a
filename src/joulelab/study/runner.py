# SPDX-License-Identifier: Apache-2.0
"""Runs a study: every trial of its plan that is not done, one after the other, each exactly once."""

from __future__ import annotations

import contextlib
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from joulelab.errors import RecordError
from joulelab.launch import LAUNCHERS
from joulelab.launch.launcher import Launcher, Stopped
from joulelab.launch.progress import OnProgress, Progress, Step, ignore
from joulelab.launch.turn import machine_turn, wait_for_turn
from joulelab.records import claim, plugin, store
from joulelab.records.layout import StudyFolder, TrialFolder
from joulelab.study.attempt import attempt
from joulelab.study.plan import plan, strangers, study_at, write_plan
from joulelab.study.summary import Summary, outcome, summarize

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from joulelab.records.parameter import Scalar
    from joulelab.records.trial import TrialSpec
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
    run = _Run(
        folder=folder,
        trials=_numbered(planned, specs, varied=list(study.grid)),
        launcher=launcher or plugin.load(LAUNCHERS, study.launcher, what="launcher")(),
        on_progress=on_progress,
    )
    outside = strangers(folder, planned)
    stopped = 0
    try:
        run.all(outside=len(outside))
    except Stopped as stop:
        stopped = stop.number
    except KeyboardInterrupt:
        stopped = int(signal.SIGINT)
    return summarize(planned, ran=run.ran, strangers=outside, stopped=stopped)


@dataclass(frozen=True)
class _Trial:
    index: int
    folder: TrialFolder
    settings: dict[str, Scalar]
    failure_before: tuple[int, int] | None  # what failed.json was when this run began


def _numbered(
    folders: Sequence[TrialFolder], specs: Sequence[TrialSpec], *, varied: Sequence[str]
) -> list[_Trial]:
    trials = []
    for index, (folder, spec) in enumerate(zip(folders, specs, strict=True), start=1):
        values = {**spec.parameters, **spec.knobs}
        trials.append(_Trial(index, folder, {name: values[name] for name in varied}, _failure(folder)))
    return trials


def _failure(folder: TrialFolder) -> tuple[int, int] | None:
    try:
        status = folder.failed.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_ino


@dataclass
class _Run:
    """One pass over the trials of a plan, perhaps beside passes of other processes."""

    folder: StudyFolder
    trials: Sequence[_Trial]
    launcher: Launcher
    on_progress: OnProgress
    ran: list[TrialFolder] = field(default_factory=list)
    ended: int = 0

    def all(self, *, outside: int) -> None:
        left = [trial for trial in self.trials if not trial.folder.done.exists()]
        self.ended = len(self.trials) - len(left)
        self._tell("plan")
        if outside:
            self._tell(
                "note", text=f"the plan has changed: {outside} trials in the folder are not in it any more"
            )
        while left:
            left = [trial for trial in left if not self._settled(trial)]
            if left:
                # Only what other processes run is left. One of them may die: then it is ours.
                self._wait(left[0])

    def _settled(self, trial: _Trial) -> bool:
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
                on_start=lambda: self._tell("start", trial),
                on_step=lambda step: self._tell("step", trial, step=step),
                inherit=inherit,
            )
        if mine:
            self.ran.append(trial.folder)
            self.ended += 1
            state, text = outcome(trial.folder)
            self._tell("end", trial, state=state, text=text)
        return mine

    def _machine(self, trial: _Trial) -> contextlib.AbstractContextManager[int]:
        words = "another process runs a trial of this study on this machine"
        return machine_turn(self.folder, on_wait=lambda: self._tell("wait", trial, text=words))

    def _over(self, trial: _Trial) -> bool:
        over = trial.folder.done.exists() or self._failed_since(trial)
        self.ended += over
        return over

    def _failed_since(self, trial: _Trial) -> bool:
        """Another process tried it while this run went on; a third try is for the next command."""
        failure = _failure(trial.folder)
        return failure is not None and failure != trial.failure_before

    def _wait(self, trial: _Trial) -> None:
        self._tell("wait", trial, text=f"another process runs {trial.folder.path.name}")
        wait_for_turn(trial.folder)
        if claim.is_alive(trial.folder):
            # Its runner is on another machine, where this lock may not reach.
            time.sleep(ELSEWHERE_S)

    def _tell(
        self,
        kind: str,
        trial: _Trial | None = None,
        *,
        step: Step | None = None,
        state: str = "",
        text: str = "",
    ) -> None:
        self.on_progress(
            Progress(
                kind=kind,
                of=len(self.trials),
                ended=self.ended,
                index=trial.index if trial else 0,
                name=trial.folder.path.name if trial else "",
                settings=trial.settings if trial else {},
                step=step,
                state=state,
                text=text,
            )
        )
