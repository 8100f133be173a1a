# SPDX-License-Identifier: Apache-2.0
"""A record that a program makes of itself is a trial folder like any other: spec, host, result, claim."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from joulelab.errors import RecordError
from joulelab.meter.runtime import is_joined
from joulelab.records import claim, provenance, store
from joulelab.records.layout import TrialFolder
from joulelab.records.trial import TrialSpec, result_of

if TYPE_CHECKING:
    from joulelab.meter.meter import Meter

WORKLOAD = "command"
WHOLE = "run"  # the window from the first one of the program to the end of its meter


class Session:
    """From the first window to the end of the meter, in a folder that nobody else prepared."""

    def __init__(self, folder: TrialFolder, meter: Meter) -> None:
        self._folder = folder
        provenance.write_host(
            folder,
            devices=meter.device_list(),
            problems=[f"{p['vendor']}: {p['what']}; {p['cure']}" for p in meter.problems()],
        )
        self._window = meter.window(WHOLE, synchronize=False)
        self._window.enter_aside()

    def end(self) -> None:
        """The last moment that is measured. Its figures are asked for later, with all the others."""
        self._window.__exit__(None, None, None)

    def write(self) -> None:
        """The totals, and the mark that the record is whole."""
        store.write_json(self._folder.result, result_of(self._window.measurement, state="done"))
        self._folder.done.touch()
        claim.release(self._folder)


def prepared(out: Path, *, devices: tuple[str, ...]) -> TrialFolder | None:
    """The folder, taken and with its spec, if it is new or holds a program's earlier session, now set aside.

    None where a launcher, or another rank of this job, keeps the record: the rank that comes first does. What
    its sampler writes must not be set aside as if it were an earlier session's. Call it before anything is
    written.
    """
    store.make_folder(out)
    if claim.is_alive(TrialFolder(out)) or is_joined(os.environ, out=str(out), devices=devices):
        return None
    folder = store.make_trial_folder(out)
    if folder.spec.exists() and store.read_json(folder.spec, TrialSpec).workload != WORKLOAD:
        if not folder.done.exists():
            return None
        raise RecordError(
            f"{out} already holds a trial", cure="give another folder as out, or remove that one"
        )
    folder.done.unlink(missing_ok=True)
    if not claim.take(folder):
        return None
    command = tuple(sys.argv) if sys.argv and sys.argv[0] else (sys.executable,)
    store.write_json(folder.spec, TrialSpec(workload=WORKLOAD, command=command, devices=devices))
    return folder


def refused(folder: TrialFolder) -> None:
    """The meter could not begin: the next try starts as if there had been none."""
    if not (folder.path / "attempts").exists():  # else a session was set aside: the spec says whose
        folder.spec.unlink(missing_ok=True)
    claim.forget(folder)
