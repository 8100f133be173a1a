# SPDX-License-Identifier: Apache-2.0
"""Any command, measured from outside: its output, signals and exit status are its own."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from joulelab.errors import JouleLabError, RecordError
from joulelab.meter.meter import Meter
from joulelab.records import claim, provenance, store
from joulelab.records.layout import SCHEMA, TrialFolder
from joulelab.records.trial import Result, TrialSpec, result_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

# The shell's own statuses for a command that never ran.
NOT_FOUND, NOT_EXECUTABLE = 127, 126
LONGEST = 200
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)


def measure_command(
    command: Sequence[str], *, out: Path, name: str = "", devices: Sequence[str] = (), idle_s: float = 0.5
) -> Result:
    """Run `command` to its end and leave a trial folder at `out`.

    A negative exit code is the signal that ended it.
    """
    folder = TrialFolder(out)
    if folder.spec.exists():
        raise RecordError(
            f"{out} already holds a trial", cure="give another folder with --out, or remove that one"
        )
    store.make_trial_folder(out)
    spec = TrialSpec(workload="command", command=tuple(command), devices=tuple(devices))
    # Whoever reads the folder sees that it runs; after a kill -9, that it ran. And the meter sees that the
    # record is kept here.
    if not claim.take(folder):
        raise RecordError(f"{out} is being written by another process", cure="give another folder with --out")
    with _opened(Meter(out=out, devices=spec.devices), folder) as meter:
        store.write_json(folder.spec, spec)
        try:
            result = _measured(command, meter=meter, folder=folder, name=name, idle_s=idle_s)
        except BaseException as error:
            _fail(folder, reason=f"stopped by {type(error).__name__}", exit_code=1)
            raise
    try:
        _keep(folder, result)
    except RecordError as error:
        # The command has run: its figures and its exit status are worth more than the file.
        tell(f"joulelab: the record is not complete: {error}")
    return result


@contextlib.contextmanager
def _opened(meter: Meter, folder: TrialFolder) -> Iterator[Meter]:
    """The meter at work. Where it cannot be, no folder is left that looks like a trial to come."""
    try:
        meter.open()
    except JouleLabError:
        claim.forget(folder)
        raise
    with meter:
        yield meter


def _measured(
    command: Sequence[str], *, meter: Meter, folder: TrialFolder, name: str, idle_s: float
) -> Result:
    idle = meter.idle(idle_s) if idle_s > 0 else None
    provenance.write_host(folder, devices=meter.device_list(), idle=idle)
    window = meter.window(name or Path(command[0]).name, synchronize=False)
    with window:
        exit_code, reason = _run(command, environment=meter.environment())
    state = "done" if exit_code == 0 else "failed"
    return result_of(
        window.measurement, state=state, exit_code=exit_code, valid=exit_code == 0, reason=reason
    )


def _keep(folder: TrialFolder, result: Result) -> None:
    store.write_json(folder.result, result)
    if result.state == "done":
        folder.done.touch()
        folder.claim.unlink(missing_ok=True)
    else:
        _fail(folder, reason=result.reason, exit_code=result.exit_code)


def _fail(folder: TrialFolder, *, reason: str, exit_code: int) -> None:
    content = {"schema": SCHEMA, "state": "failed", "reason": reason, "exit_code": exit_code}
    store.write_json(folder.failed, content)
    folder.claim.unlink(missing_ok=True)


def _run(command: Sequence[str], *, environment: dict[str, str]) -> tuple[int, str]:
    # What Python has buffered would come out after the command's own output.
    sys.stdout.flush()
    sys.stderr.flush()
    with _signals_passed_on() as attach:
        try:
            process = subprocess.Popen(list(command), env={**os.environ, **environment})
        except FileNotFoundError:
            if Path(command[0]).is_file():
                return NOT_FOUND, f"{command[0]} names a program in its first line that is not there"
            return NOT_FOUND, f"no such command: {command[0]}"
        except OSError as error:
            return NOT_EXECUTABLE, f"{command[0]} cannot be executed: {error.strerror}"
        attach(process)
        exit_code = process.wait()
    if exit_code < 0:
        return exit_code, f"ended by {_signal_name(-exit_code)}: {_words(command)}"
    return exit_code, f"exit status {exit_code}: {_words(command)}" if exit_code else ""


def _words(command: Sequence[str]) -> str:
    """The command for one line; a script may be part of it."""
    said = " ".join(shlex.join(command).split())
    return said if len(said) <= LONGEST else f"{said[:LONGEST]} ..."


@contextlib.contextmanager
def _signals_passed_on() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Catch signals from before the command exists; what comes too early is sent when it does."""
    running: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        del frame
        # Started from a terminal, the command has had Ctrl-C from there already. Sent by `kill` to
        # this process
        # alone, it has not: then no terminal has this group in its foreground.
        if number in FROM_TERMINAL and _in_foreground():
            return
        if running:
            with contextlib.suppress(ProcessLookupError):
                running[0].send_signal(number)
        else:
            early.append(number)

    def attach(process: subprocess.Popen[bytes]) -> None:
        running.append(process)
        for number in early:
            process.send_signal(number)

    # A signal that this process was started to ignore (nohup, a job in the background) stays ignored,
    # in both.
    caught = [n for n in (*FORWARDED, *FROM_TERMINAL) if signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.signal(number, forward) for number in caught}
    try:
        yield attach
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def tell(text: str) -> None:
    """Say it on stderr. Where nobody reads that, the exit status is the command's all the same."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        # What is kept for a reader that has gone, or a disk that is full, would fail once more at the end.
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  as long as the process


def leave_with(exit_code: int) -> None:
    """End this process as the command ended: a caller that looks for the signal finds the signal."""
    sys.stdout.flush()
    sys.stderr.flush()
    if exit_code < 0:
        import resource  # Unix only, and needed only here

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command's core says why; ours would not
        signal.signal(-exit_code, signal.SIG_DFL) if -exit_code not in (
            signal.SIGKILL,
            signal.SIGSTOP,
        ) else None
        os.kill(os.getpid(), -exit_code)
    raise SystemExit(exit_code if exit_code >= 0 else 128 - exit_code)
