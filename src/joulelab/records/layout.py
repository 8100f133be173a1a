# SPDX-License-Identifier: Apache-2.0
"""Every path of a record is named here and nowhere else. Standard library only: the sampler reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 1


@dataclass(frozen=True)
class TrialFolder:
    """The one thing that passes between planning, running and analysing."""

    path: Path

    @property
    def spec(self) -> Path:
        return self.path / "spec.json"

    @property
    def host(self) -> Path:
        return self.path / "host.json"

    @property
    def windows(self) -> Path:
        return self.path / "windows.jsonl"

    @property
    def power(self) -> Path:
        return self.path / "power.csv"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    @property
    def log(self) -> Path:
        return self.path / "log.txt"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @property
    def ranks(self) -> Path:
        """What each worker says of itself, where several trained together."""
        return self.path / "ranks"

    def events_of(self, number: int) -> Path:
        """What one worker did when, beside those of the others."""
        return self.ranks / f"{number:05d}.events.jsonl"

    def node(self, host: str) -> Path:
        """The record of another machine's meter: windows and power."""
        return self.path / "nodes" / host

    @property
    def nodes(self) -> Path:
        return self.path / "nodes"

    def rank(self, number: int) -> Path:
        return self.ranks / f"{number:05d}.json"

    @property
    def claim(self) -> Path:
        """Exists while a process runs this trial; holds who that is."""
        return self.path / "running.json"

    @property
    def turn(self) -> Path:
        """Locked while the trial runs, by its runner and by its worker: one may outlive the other."""
        return self.path / ".turn.lock"

    @property
    def job(self) -> Path:
        """Which job of a cluster's scheduler has this trial, or had it last."""
        return self.path / "job.json"

    @property
    def job_energy(self) -> Path:
        """What the scheduler says that its job consumed, where it says so."""
        return self.path / "job_energy.json"

    @property
    def failed(self) -> Path:
        """Exists when the last attempt failed; holds why."""
        return self.path / "failed.json"

    @property
    def done(self) -> Path:
        """Exists when the trial ended and its result can be read. Empty; written after everything else."""
        return self.path / "done"


@dataclass(frozen=True)
class StudyFolder:
    """A study's home: its file as it was read, a lock, and one folder a trial."""

    path: Path

    @property
    def study(self) -> Path:
        return self.path / "study.json"

    @property
    def lock(self) -> Path:
        return self.path / "study.lock"

    @property
    def trials(self) -> Path:
        return self.path / "trials"

    @property
    def jobs(self) -> Path:
        """The scripts that a cluster's scheduler was given, and what it had to say of them."""
        return self.path / "jobs"

    @property
    def data(self) -> Path:
        """Stand-ins that the study's trials share."""
        return self.path / "data"

    def trial(self, name: str) -> TrialFolder:
        return TrialFolder(self.trials / name)
