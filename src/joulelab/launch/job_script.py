# SPDX-License-Identifier: Apache-2.0
"""What the script of a job does, whichever scheduler runs it. Pure: parameters in, lines of bash out."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LOCK = 9  # the descriptor that the script keeps open on the trial's lock
SHARED = 73  # exit status of a job whose node does not see the folder


@dataclass(frozen=True, kw_only=True)
class Work:
    """The trials of a job or of an array of jobs, and how each is started."""

    trials: tuple[Path, ...]  # absolute; one for each job of an array
    workers: int = 1  # processes that train one trial together
    nodes: int = 1
    python: str = "python"
    container: str = ""  # words of the shell that stand before the interpreter
    modules: tuple[str, ...] = ()
    before: tuple[str, ...] = ()  # lines of the shell
    import_path: str = ""
    module: str = "joulelab.train.worker"

    @property
    def workers_per_node(self) -> int:
        assert self.workers % self.nodes == 0, (self.workers, self.nodes)
        return self.workers // self.nodes


@dataclass(frozen=True, kw_only=True)
class Names:
    """How a scheduler calls what the script needs. All but the first are text of the shell."""

    scheduler: str
    job: str  # the job, and its place in an array
    index: str  # that place
    first_index: int
    number: str  # a whole number that no other job on the node has, as bash computes it
    head: str  # sets `head` to the first node


def script_lines(work: Work, *, names: Names, name: str, start: str) -> list[str]:
    """Everything below the head of a script. `start` begins one process a node, as the scheduler does it."""
    python = " ".join(filter(None, (work.container, shlex.quote(work.python))))
    return [
        *(f"module load {shlex.quote(module)}" for module in work.modules),
        *work.before,
        *_environment(work),
        *_trial(work, names),
        f'[ -w "$folder" ] || {{ echo "joulelab: $folder cannot be written on $(uname -n):'
        f' the nodes must share the folder of the study" >&2; exit {SHARED}; }}',
        f'exec {LOCK}>>"$folder/.turn.lock"',
        f'{python} -P -m joulelab.launch.job_start "$folder" {names.scheduler} "{names.job}"'
        f" {shlex.quote(name)} {LOCK} || exit",
        "# Who ends the job asks the training first; this script stays until that has put things back.",
        "trap : TERM",
        *_training(work, names=names, start=start, python=python),
        "status=${PIPESTATUS[0]}",
        'rm -f "$folder/running.json"',
        'exit "$status"',
    ]


def _environment(work: Work) -> list[str]:
    lines = ["# The current folder is no place to find modules in.", "export PYTHONSAFEPATH=1"]
    return [*lines, f"export PYTHONPATH={shlex.quote(work.import_path)}"] if work.import_path else lines


def _trial(work: Work, names: Names) -> list[str]:
    if len(work.trials) == 1:
        return [f"folder={shlex.quote(str(work.trials[0]))}"]
    index = f"{names.index} - {names.first_index}" if names.first_index else names.index
    return [
        "trials=(",
        *(shlex.quote(str(trial)) for trial in work.trials),
        ")",
        f'folder="${{trials[{index}]}}"',
    ]


def _training(work: Work, *, names: Names, start: str, python: str) -> Iterable[str]:
    # What the worker says of its progress is in metrics.jsonl, too; the user's own prints are for the log.
    # That filter hears no request to end: the last words of the training go through it.
    log = "2>>\"$folder/log.txt\" | (trap '' TERM; exec grep --line-buffered -av '^{\"progress\":')"
    log += ' >>"$folder/log.txt"'
    if work.workers == 1:
        return [f'{start} {python} -P -m {work.module} "$folder" {log}']
    return [
        names.head,
        # Below the ports that the system gives to connections.
        f"port=$((10000 + ({names.number}) % 20000))",
        f"{start} {python} -P -m torch.distributed.run --nnodes={work.nodes} "
        f'--nproc-per-node={work.workers_per_node} --rdzv-backend=c10d --rdzv-endpoint="$head:$port" '
        f'--rdzv-id="{names.job}" -m {work.module} "$folder" {log}',
    ]


def job_name(text: str) -> str:
    """`text` as every scheduler takes it for a name."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", text).strip("._-")[:60] or "joulelab"
