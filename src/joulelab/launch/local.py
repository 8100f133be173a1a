# SPDX-License-Identifier: Apache-2.0
"""A trial in processes of its own on this machine. Whoever waits for it blocks, and costs it nothing."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import sysconfig
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from joulelab.errors import TrialError
from joulelab.launch.launcher import Launcher, Stopped, processes
from joulelab.launch.progress import OnStep, ignore, parse_step
from joulelab.launch.signals import passed_on

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from joulelab.records.layout import TrialFolder


class Local(Launcher):
    """`python -m joulelab.train.worker FOLDER`, one process a trial; torchrun where it asks for more."""

    module = "joulelab.train.worker"

    def run(self, folder: TrialFolder, *, on_progress: OnStep = ignore, inherit: Sequence[int] = ()) -> int:
        with (
            folder.log.open("ab", buffering=0) as log,
            passed_on() as signals,
            self._start(folder, log=log, inherit=inherit) as process,
        ):
            signals.to(process)
            try:
                for line in lines_until_the_end(process):
                    step = parse_step(line)
                    if step is None:
                        log.write(line + b"\n")
                    else:
                        on_progress(step)
            except BaseException:
                # The listener failed, for example a closed pipe under `| head`: nobody is left to run for.
                process.terminate()
                raise
            exit_code = process.wait()
        if signals.came:
            raise Stopped(signals.came[0])
        return exit_code

    def _start(
        self, folder: TrialFolder, *, log: BinaryIO, inherit: Sequence[int]
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self._command(folder),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": import_path(), **threads_of(processes(folder), os.environ)},
                pass_fds=tuple(inherit),
                # A group of its own: Ctrl-C reaches the worker once, from here.
                process_group=0,
            )
        except OSError as error:
            raise TrialError(
                f"no worker process could be started: {error.strerror}", cure="free some memory or processes"
            ) from error

    def _command(self, folder: TrialFolder) -> list[str]:
        workers = processes(folder)
        # -P: the current folder is no place to find a module that the standard library also has.
        python = [sys.executable, "-P"]
        if workers == 1:
            return [*python, "-m", self.module, str(folder.path)]
        # A port that nobody uses is found by the one who opens it; each run has a name of its own, by which
        # its workers find their meter.
        meeting = ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", f"--rdzv-id={uuid.uuid4().hex[:12]}"]
        many = ["-m", "torch.distributed.run", "--nnodes=1", f"--nproc-per-node={workers}", *meeting]
        return [*python, *many, "--no-python", *python, "-m", self.module, str(folder.path)]


def threads_of(workers: int, environment: Mapping[str, str]) -> dict[str, str]:
    """An equal part of the cores for each worker, unless somebody has decided otherwise."""
    if workers == 1 or "OMP_NUM_THREADS" in environment:
        return {}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {"OMP_NUM_THREADS": str(max(1, cores // workers))}


def lines_until_the_end(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Lines of the process's output until it ends; children that it leaves behind may hold the pipe open."""
    assert process.stdout is not None
    output = process.stdout.fileno()
    ended = os.pidfd_open(process.pid) if sys.platform == "linux" else None
    pending = b""
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            if ended is not None:
                selector.register(ended, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select()}
                if output not in ready:
                    break
                chunk = os.read(output, 1 << 16)
                if not chunk:
                    break
                *lines, pending = (pending + chunk).split(b"\n")
                yield from lines
        if pending:
            yield pending
    finally:
        if ended is not None:
            os.close(ended)


def import_path() -> str:
    """Where modules beyond the interpreter's own are found: here, and so by the worker too."""
    own = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    more = [Path(entry or ".").absolute() for entry in sys.path if not entry.endswith(".zip")]
    kept = [str(path) for path in more if not own.intersection((path, *path.parents))]
    return os.pathsep.join(dict.fromkeys(kept))
