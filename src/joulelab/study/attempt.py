# SPDX-License-Identifier: Apache-2.0
"""One attempt at one trial: claimed, run, and marked whatever happens."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

from joulelab.launch.launcher import Launcher, Stopped
from joulelab.launch.progress import OnStep, ignore
from joulelab.launch.turn import turn
from joulelab.records import claim, ranks, store
from joulelab.records.layout import SCHEMA, TrialFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

# What a scheduler's own program says when a trial has ended is no cause.
_STARTER = re.compile(r"(srun|slurmstepd[^:]*|mpiexec|jsrun): ")
_ERROR = re.compile(r"[\w.]+(Error|Exception|Exit)\b")


def attempt(
    folder: TrialFolder,
    *,
    launcher: Launcher,
    on_start: Callable[[], None] = lambda: None,
    on_step: OnStep = ignore,
    inherit: Sequence[int] = (),
) -> bool:
    """Run the trial to its end. False: it is done, or somebody else runs it."""
    with turn(folder) as mine:
        if mine is None or not claim.take(folder):
            return False
        try:
            on_start()
            exit_code = launcher.run(folder, on_progress=on_step, inherit=(mine, *inherit))
            _mark(folder, state="failed", exit_code=exit_code)
        except (Stopped, KeyboardInterrupt) as stop:
            number = stop.number if isinstance(stop, Stopped) else int(signal.SIGINT)
            _mark(folder, state="interrupted", exit_code=128 + number)
            raise
        finally:
            claim.release(folder)
    return True


def _mark(folder: TrialFolder, *, state: str, exit_code: int) -> None:
    """failed.json where the worker could not write it itself. The record decides, not the exit status."""
    if folder.done.exists() or folder.failed.exists():
        return
    reason = "stopped on request" if state == "interrupted" else _reason(exit_code, folder=folder)
    store.write_json(
        folder.failed, {"schema": SCHEMA, "state": state, "reason": reason, "exit_code": exit_code}
    )


def _reason(exit_code: int, *, folder: TrialFolder) -> str:
    log = folder.log
    if words := ranks.blamed(folder):
        return words
    if exit_code == -signal.SIGKILL:
        return "killed by SIGKILL, most often because memory ran out: try a smaller batch"
    if exit_code < 0:
        return f"ended by {_signal_name(-exit_code)}{last_words(log)}"
    if exit_code == 0:
        return f"ended without a result{last_words(log)}"
    return f"exit status {exit_code}{last_words(log)}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_words(log: Path) -> str:
    """The last line of the log that names a Python error, or else the last line; to follow other words."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        lines = file.read().decode(errors="replace").strip().splitlines()
    # The worker's own prints come by another way than its errors, and may stand below them.
    said = [line for line in lines if _ERROR.match(line)]
    said = said or [line for line in lines if not _STARTER.match(line)]
    return f": {said[-1].strip()[:300]}" if said else ""
