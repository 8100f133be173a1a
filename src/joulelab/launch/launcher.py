# SPDX-License-Identifier: Apache-2.0
"""The base of all launchers: something that runs one trial folder to its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from joulelab.errors import RecordError
from joulelab.knobs.sharing import processes_of
from joulelab.launch.progress import OnStep, ignore
from joulelab.records import store
from joulelab.records.trial import TrialSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from joulelab.records.layout import TrialFolder


class Stopped(Exception):  # noqa: N818  not an error: somebody asked for it
    """A signal asked to stop; the trial that ran has ended and is marked."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}")
        self.number = number


class Launcher(ABC):
    """Runs trials somewhere. What came of a trial is read from its folder; the exit status is only a hint."""

    table = ""  # of the study file, that says more; empty if there is nothing to say
    here = True  # trials run on this machine, so one at a time; False where a scheduler places them

    @classmethod
    def check_options(
        cls, given: Mapping[str, object], *, workers: Sequence[int], place: Callable[[str], str]
    ) -> dict[str, Any]:
        """The table as it is kept with the study, or an InputError that opens with `place(key)`.

        `workers` are the numbers of processes that trials of the study want.
        """
        del given, workers, place
        return {}

    def configure(self, options: Mapping[str, Any]) -> None:
        """Do as the table says, which has been checked."""
        del options

    @abstractmethod
    def run(self, folder: TrialFolder, *, on_progress: OnStep = ignore, inherit: Sequence[int] = ()) -> int:
        """Run the trial to its end and return its exit status, negative for the signal that ended it.

        `inherit` holds open files that the process of the trial keeps for its life: locks that say it runs.
        Raises `Stopped` when a signal asked this process to stop and the trial has ended for that reason.
        """


def processes(folder: TrialFolder) -> int:
    """How many processes the trial asks for. Of a spec that cannot be read, the one that will say so."""
    try:
        return processes_of(store.read_json(folder.spec, TrialSpec).knobs)
    except RecordError:
        return 1
