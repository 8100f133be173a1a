# SPDX-License-Identifier: Apache-2.0
"""One trial, run from Python or by `joulelab run`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

from joulelab.errors import RecordError, TrialError
from joulelab.launch.launcher import Stopped
from joulelab.launch.progress import OnStep, Progress, ignore
from joulelab.launch.queue import Queue
from joulelab.records import store
from joulelab.records.store import TrialRecord
from joulelab.records.trial import TrialSpec
from joulelab.study.attempt import attempt
from joulelab.study.check import check_here, checked, launcher_of
from joulelab.study.listed import Story, listed
from joulelab.study.queued import QueuedRun, name_of

if TYPE_CHECKING:
    from joulelab.records.layout import TrialFolder


def run(
    spec: TrialSpec, *, out: Path | str, launcher: str = "local", on_progress: OnStep = ignore
) -> TrialRecord:
    """Run one trial in the folder `out` and return its record; a trial that is done is not run again.

    How it ended is in the record's `state`, and if it failed, why is in its `failure`.
    """
    spec = checked(spec)
    place = launcher_of(launcher)()
    if place.here:
        knobs = {name: (value,) for name, value in spec.knobs.items()}
        check_here(knobs, workload=spec.workload, devices=spec.devices)
    folder = store.make_trial_folder(Path(out))
    if not folder.spec.exists():
        store.write_json(folder.spec, spec)
    elif store.read_json(folder.spec, TrialSpec) != spec:
        raise RecordError(f"{out} holds another trial", cure="give another folder with --out")
    try:
        mine = (
            _queued(folder, spec, queue=place, on_step=on_progress)
            if isinstance(place, Queue)
            else attempt(folder, launcher=place, on_step=on_progress)
        )
    except Stopped as stop:
        if stop.number == signal.SIGINT:
            raise KeyboardInterrupt from stop
        raise SystemExit(128 + stop.number) from stop
    if not mine and not folder.done.exists():
        raise TrialError(f"{out} is being run by another process", cure="wait for it, or give another folder")
    return TrialRecord(folder)


def _queued(folder: TrialFolder, spec: TrialSpec, *, queue: Queue, on_step: OnStep) -> bool:
    def tell(event: Progress) -> None:
        if event.step is not None:
            on_step(event.step)

    story = Story(of=1, on_progress=tell)
    if not folder.done.exists():
        name = name_of(spec.workload.rpartition(":")[2], folder.path)
        run = QueuedRun(home=folder.path, name=name, queue=queue, story=story)
        run.all(listed([folder], [spec], varied=()))
    return bool(story.ended)
