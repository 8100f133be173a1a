# SPDX-License-Identifier: Apache-2.0
"""The first thing a job does: `python -m joulelab.launch.job_start FOLDER SCHEDULER JOB NAME DESCRIPTOR`.

Whether the trial is this job's is decided here, on the node: a job may start a second time after its node
died, a study that was killed may have asked twice, and somebody may have run the trial by hand meanwhile.
Exit status 0: it is, and its folder is clean. Loads no framework.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from joulelab.errors import InputError, JouleLabError
from joulelab.launch.job_note import JobNote, read_note, write_note
from joulelab.records import claim
from joulelab.records.layout import TrialFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# How long an earlier start of the same job is given to end, where its node lost only the scheduler.
LOCK_S = 60.0
NOT_MINE = 10  # the exit status: nothing is wrong, and nothing is to be done


def begin(folder: TrialFolder, note: JobNote, *, lock: int, runner: int, say: Callable[[str], None]) -> int:
    """Take the trial for the process `runner`, the script of the job; 0, or NOT_MINE after saying why."""
    if not _locked(lock):
        say(f"another process runs {folder.path} and did not end within {LOCK_S:g} s")
        return NOT_MINE
    asked = read_note(folder)
    if asked is None:
        # Whoever asked for this job died before it could note that.
        write_note(folder, note)
    elif asked != note:
        say(f"{asked.scheduler} job {asked.job} has {folder.path}, not job {note.job}")
        return NOT_MINE
    if not claim.take_for_job(folder, job=note.job, runner=runner):
        say(f"{folder.path} is done, or another process runs it")
        return NOT_MINE
    return 0


def _locked(descriptor: int) -> bool:
    """Lock what the job's script has open: it holds it to its end. True as well where nobody can lock."""
    until = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(0.2)
        except OSError:
            return True  # a file system without locks, or a container that does not pass it on
        else:
            return True


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 5 or not arguments[4].isdigit():
        raise InputError(
            "five arguments are wanted", cure="joulelab.launch.job_start FOLDER SCHEDULER JOB NAME DESCRIPTOR"
        )
    path, scheduler, job, name, descriptor = arguments
    note = JobNote(scheduler=scheduler, job=job, name=name)
    return begin(TrialFolder(Path(path)), note, lock=int(descriptor), runner=os.getppid(), say=_say)


def _say(words: str) -> None:
    sys.stderr.write(f"joulelab: {words}\n")


if __name__ == "__main__":
    try:
        exit_code = main(sys.argv[1:])
    except JouleLabError as refused:
        _say(str(refused))
        exit_code = 2
    sys.exit(exit_code)
