# SPDX-License-Identifier: Apache-2.0
"""The base of launchers that hand trials to a scheduler: it says where and when they run."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import msgspec

from joulelab.errors import TrialError
from joulelab.launch.launcher import Launcher
from joulelab.launch.progress import OnStep, ignore

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from joulelab.launch.job_note import JobNote
    from joulelab.records.layout import TrialFolder

WAITING, RUNNING, OVER = "waiting", "running", "over"


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """How a job stands."""

    phase: str
    state: str = ""  # the scheduler's own word
    reason: str = ""  # why it waits, or ended, in the scheduler's own words
    nodes: str = ""


class NoAnswerError(TrialError):
    """The scheduler does not answer at the moment. Its jobs may run on."""


class Queue(Launcher):
    """Hands over all trials of a study at once, and is asked from time to time how they stand."""

    here = False
    every_s = 10.0  # how often the scheduler is asked; many people ask the same one
    patience_s = 600.0  # how long it may leave that unanswered: it is started anew now and then
    settle_s = 30.0  # how long a file that a node has written may take to be seen here
    ending_s = 120.0  # how long a job that is cancelled may take to end

    @abstractmethod
    def submit(
        self, trials: Mapping[TrialFolder, int], *, jobs: Path, name: str
    ) -> Iterator[Mapping[TrialFolder, JobNote]]:
        """Ask for a job for each trial, with the number of its workers, and give what was granted so far.

        Scripts are kept in `jobs`, and the jobs are found by `name` and their number.

        Raises TrialError, in words, where the scheduler refuses.
        """

    @abstractmethod
    def look(self, notes: Collection[JobNote]) -> Mapping[JobNote, JobState]:
        """How each job stands now; one that the scheduler has forgotten is over. Raises NoAnswerError."""

    @abstractmethod
    def cancel(self, notes: Collection[JobNote]) -> None:
        """End these jobs, those that wait and those that run, which are asked to put things back first."""

    @abstractmethod
    def why(self, note: JobNote, state: JobState, *, said: str) -> str:
        """Why a job that left no word in its trial's folder has ended, in words; `said` was its last word."""

    @abstractmethod
    def output(self, note: JobNote, *, jobs: Path) -> Path:
        """What the script of the job itself had to say: a module that is not there, a killer of processes."""

    def cure_of(self, reason: str) -> str:
        """What to do about jobs that wait for this reason, after a colon; empty if they need only wait."""
        return ""

    def trouble(self, state: JobState) -> str:
        """What became of the node of a job that runs no more and is to run again; empty if all is well."""
        return ""

    def keep_energy(self, folder: TrialFolder, note: JobNote) -> None:
        """Keep what the scheduler says that the job consumed, where it says so."""

    def run(self, folder: TrialFolder, *, on_progress: OnStep = ignore, inherit: Sequence[int] = ()) -> int:
        del folder, on_progress, inherit
        raise TrialError(
            f"{type(self).__name__} takes all trials at once", cure="use joulelab.study.queued.QueuedRun"
        )
