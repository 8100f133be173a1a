# SPDX-License-Identifier: Apache-2.0
"""The script that qsub is given, for PBS with PALS. Pure: parameters in, text out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from joulelab.launch.job_script import Names, script_lines

if TYPE_CHECKING:
    from joulelab.launch.job_script import Work

NAMES = Names(
    scheduler="pbs",
    job="$PBS_JOBID",
    index="PBS_ARRAY_INDEX",
    first_index=0,
    number="${PBS_JOBID%%[!0-9]*} + ${PBS_ARRAY_INDEX:-0}",
    head='head=$(head -n 1 "$PBS_NODEFILE")',
)


@dataclass(frozen=True, kw_only=True)
class PbsJob:
    """What is asked of PBS. What is empty or 0 is left to the cluster."""

    name: str
    account: str = ""
    queue: str = ""
    time_limit: str = ""  # hours:minutes:seconds
    cpus_per_node: int = 0
    gpus_per_node: int = 0
    mem: str = ""
    filesystems: str = ""  # such as home:eagle, where the jobs of a cluster have to name them
    depth: int = 0  # cores of the one process that mpiexec starts on a node
    dependency: str = ""
    at_once: int = 0
    extra: tuple[str, ...] = ()  # options of qsub


def pbs_script(job: PbsJob, work: Work) -> str:
    """One job a trial, as an array where there are many; one process a node, started by mpiexec."""
    chunk = {"ncpus": job.cpus_per_node, "ngpus": job.gpus_per_node, "mem": job.mem}
    select = ":".join(
        [f"select={work.nodes}", *(f"{name}={value}" for name, value in chunk.items() if value)]
    )
    last = f"0-{len(work.trials) - 1}" + (f"%{job.at_once}" if job.at_once else "")
    options = [
        f"-N {job.name}",
        *([f"-J {last}"] if len(work.trials) > 1 else []),
        *([f"-A {job.account}"] if job.account else []),
        *([f"-q {job.queue}"] if job.queue else []),
        f"-l {select}",
        "-l place=scatter",
        *([f"-l walltime={job.time_limit}"] if job.time_limit else []),
        *([f"-l filesystems={job.filesystems}"] if job.filesystems else []),
        *([f"-W depend={job.dependency}"] if job.dependency else []),
        # A queue that takes nodes back does so without a word; the job is to run again.
        "-r y",
        "-j oe",
        *job.extra,
    ]
    cores = f" --depth {job.depth} --cpu-bind depth" if job.depth else ""
    # The script itself runs on the first node: one worker needs nobody to start it.
    start = f"mpiexec -n {work.nodes} --ppn 1{cores}" if work.workers > 1 else "env"
    lines = [
        "#!/bin/bash",
        *(f"#PBS {option}" for option in options),
        'cd "$PBS_O_WORKDIR" || exit',
        *script_lines(work, names=NAMES, name=job.name, start=start),
    ]
    return "\n".join(lines) + "\n"
