# SPDX-License-Identifier: Apache-2.0
"""The script that bsub is given, for LSF with jsrun. Pure: parameters in, text out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from joulelab.launch.job_script import Names, script_lines

if TYPE_CHECKING:
    from joulelab.launch.job_script import Work

NAMES = Names(
    scheduler="lsf",
    # Outside an array the index is 0.
    job="$LSB_JOBID[${LSB_JOBINDEX:-0}]",
    index="LSB_JOBINDEX",
    first_index=1,
    number="LSB_JOBID + ${LSB_JOBINDEX:-0}",
    # The node that this script runs on stands in the list as well, and trains nothing.
    head='head=$(grep -v batch "$LSB_DJOB_HOSTFILE" | head -n 1)',
)


@dataclass(frozen=True, kw_only=True)
class LsfJob:
    """What is asked of LSF. What is empty or 0 is left to the cluster."""

    name: str
    project: str = ""
    queue: str = ""
    time_limit: str = ""  # hours:minutes
    cpus_per_node: int = 0
    gpus_per_node: int = 0
    dependency: str = ""
    at_once: int = 0
    warn_s: int = 120
    extra: tuple[str, ...] = ()  # options of bsub


def lsf_script(job: LsfJob, work: Work) -> str:
    """One job a trial, as an array where there are many; jsrun starts one process a node."""
    many = len(work.trials) > 1
    array = f"[1-{len(work.trials)}]" + (f"%{job.at_once}" if job.at_once else "") if many else ""
    options = [
        f'-J "{job.name}{array}"',
        *([f"-P {job.project}"] if job.project else []),
        *([f"-q {job.queue}"] if job.queue else []),
        f"-nnodes {work.nodes}",
        *([f"-W {job.time_limit}"] if job.time_limit else []),
        *([f'-w "{job.dependency}"'] if job.dependency else []),
        "-r",
        *([f"-wa TERM -wt {math.ceil(job.warn_s / 60)}"] if job.warn_s else []),
        f"-o lsf-%J{'_%I' if many else ''}.txt",
        *job.extra,
    ]
    cores = f" -c {job.cpus_per_node}" if job.cpus_per_node else " -c ALL_CPUS"
    cards = f" -g {job.gpus_per_node}" if job.gpus_per_node else ""
    lines = [
        "#!/bin/bash",
        *(f"#BSUB {option}" for option in options),
        *script_lines(
            work, names=NAMES, name=job.name, start=f"jsrun -n {work.nodes} -r 1 -a 1{cores}{cards}"
        ),
    ]
    return "\n".join(lines) + "\n"
