# SPDX-License-Identifier: Apache-2.0
"""Trials as jobs of Slurm: all of a study at once, watched from here, each known by the job in its folder."""

from __future__ import annotations

import itertools
import os
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from joulelab.errors import JouleLabError
from joulelab.launch.job_note import JobNote
from joulelab.launch.job_script import SHARED, Work
from joulelab.launch.local import import_path
from joulelab.launch.queue import OVER, JobState, Queue
from joulelab.launch.slurm_commands import (
    SQUEUE,
    call,
    parse_fields,
    parse_max_array,
    parse_squeue,
    parse_submitted,
    waiting_cure,
)
from joulelab.launch.slurm_energy import Accounting
from joulelab.launch.slurm_options import Place, SlurmOptions, check_options
from joulelab.launch.slurm_script import SlurmJob, slurm_script
from joulelab.records import store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from joulelab.records.layout import TrialFolder

SCHEDULER = "slurm"
KILLED = "137"  # as a shell says it
MOST_IN_A_CALL = 500  # jobs that one scancel names


class Slurm(Queue):
    """sbatch to begin, squeue to watch, scancel to stop. What came of a trial its folder says."""

    module = "joulelab.train.worker"
    table = "slurm"

    def __init__(self) -> None:
        self.options = SlurmOptions()
        self._accounting = Accounting()

    @classmethod
    def check_options(
        cls, given: Mapping[str, object], *, workers: Sequence[int], place: Place
    ) -> dict[str, Any]:
        return check_options(given, workers=workers, place=place)

    def configure(self, options: Mapping[str, Any]) -> None:
        self.options = msgspec.convert(options, SlurmOptions)
        self.every_s = self.options.ask_every_s

    # ---- begin ---------------------------------------------------------------------------------------------

    def submit(
        self, trials: Mapping[TrialFolder, int], *, jobs: Path, name: str
    ) -> Iterator[Mapping[TrialFolder, JobNote]]:
        store.make_folder(jobs)
        for workers, folders in self._arrays(trials):
            script = jobs / f"{_next(jobs)}.sh"
            store.write_text(script, self.script(folders, workers=workers, name=name))
            # Its own output goes beside the script, whose folder is the one that it runs in.
            job = parse_submitted(call(("sbatch", "--parsable", script.name), cwd=jobs))
            places = [f"_{index}" for index in range(len(folders))] if len(folders) > 1 else [""]
            yield {
                folder: JobNote(scheduler=SCHEDULER, job=f"{job}{place}", name=name)
                for folder, place in zip(folders, places, strict=True)
            }

    def script(self, folders: Sequence[TrialFolder], *, workers: int, name: str) -> str:
        options = self.options
        work = Work(
            trials=tuple(folder.path.absolute() for folder in folders),
            workers=workers,
            nodes=options.nodes_for(workers),
            # In a container there is another interpreter.
            python=options.python or ("python" if options.container else sys.executable),
            container=options.container,
            modules=options.modules,
            before=options.before,
            import_path=import_path(),
            module=self.module,
        )
        names = SlurmJob.__dataclass_fields__.keys() & SlurmOptions.__struct_fields__
        asked = {each: getattr(options, each) for each in names}
        return slurm_script(SlurmJob(name=name, **asked), work)

    def _arrays(self, trials: Mapping[TrialFolder, int]) -> Iterator[tuple[int, Sequence[TrialFolder]]]:
        """Trials that are started alike, no more at a time than an array of this cluster may hold."""
        most = parse_max_array(call(("scontrol", "show", "config"))) if len(trials) > 1 else 1
        for workers in sorted(set(trials.values())):
            alike = [folder for folder, wanted in trials.items() if wanted == workers]
            for first in range(0, len(alike), most):
                yield workers, alike[first : first + most]

    # ---- watch ---------------------------------------------------------------------------------------------

    def look(self, notes: Collection[JobNote]) -> Mapping[JobNote, JobState]:
        output = call((*SQUEUE, "-u", str(os.getuid())))
        seen = {(job, name): state for job, name, state in parse_squeue(output)}
        # A job that has ended is remembered for minutes only.
        gone = JobState(phase=OVER)
        return {note: seen.get((note.job, note.name), gone) for note in notes}

    def trouble(self, state: JobState) -> str:
        if not state.nodes:
            return ""
        try:
            lines = call(("sinfo", "-h", "-N", "-n", state.nodes, "-o", "%N|%T|%E")).splitlines()
        except JouleLabError:
            return ""
        for node, word, reason in (line.split("|", 2) for line in lines if line.count("|") >= 2):
            if word.startswith(("down", "drain", "fail", "error", "unknown")) or word.endswith("*"):
                return f"node {node} is {word.rstrip('*')}" + (f" ({reason})" if reason != "none" else "")
        return ""

    def cure_of(self, reason: str) -> str:
        return waiting_cure(reason)

    # ---- end -----------------------------------------------------------------------------------------------

    def cancel(self, notes: Collection[JobNote]) -> None:
        jobs = [note.job for note in notes]
        for first in range(0, len(jobs), MOST_IN_A_CALL):
            call(("scancel", "--quiet", *jobs[first : first + MOST_IN_A_CALL]))

    def output(self, note: JobNote, *, jobs: Path) -> Path:
        return jobs / f"slurm-{note.job}.txt"

    def why(self, note: JobNote, state: JobState, *, said: str) -> str:
        fields = self._fields(note)
        word = fields.get("JobState", state.state)
        job = f"Slurm job {note.job}"
        if not word:
            # A part of an array that is cancelled while it waits leaves no trace.
            return f"{job} is not known to Slurm any more: it was cancelled, or ended long ago"
        status, _, signal = fields.get("ExitCode", "").partition(":")
        known = {
            "NODE_FAIL": f"the node {state.nodes} failed while {job} ran",
            "BOOT_FAIL": f"the node {state.nodes} of {job} did not start",
            "OUT_OF_MEMORY": f"{job} was out of memory: set mem in [slurm], or try a smaller batch",
            "TIMEOUT": f"{job} reached its time limit: set time_limit in [slurm]",
            "DEADLINE": f"{job} could not end before its deadline",
            "PREEMPTED": f"{job} had to make room for another one",
            "CANCELLED": f"{job} was cancelled",
        }.get(word)
        if known is not None:
            return known
        if status == str(SHARED):
            return f"the node {state.nodes} does not see the folder: use one that the nodes share"
        if status == KILLED or signal == "9":
            return (
                f"{job} was killed by SIGKILL, most often because memory ran out: set mem in [slurm], "
                "or try a smaller batch"
            )
        if status in ("", "0"):
            return f"{job} ended without a result{said}"
        return f"{job} ended with exit status {status}{said}"

    def keep_energy(self, folder: TrialFolder, note: JobNote) -> None:
        self._accounting.keep(folder, job=note.job)

    def _fields(self, note: JobNote) -> dict[str, str]:
        try:
            return parse_fields(call(("scontrol", "-o", "show", "job", note.job)))
        except JouleLabError:
            return {}  # forgotten meanwhile


def _next(jobs: Path) -> int:
    used = {path.stem for path in jobs.glob("*.sh")}
    return next(number for number in itertools.count(1) if str(number) not in used)
