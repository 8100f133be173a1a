# SPDX-License-Identifier: Apache-2.0
"""The script that sbatch is given. Pure: parameters in, text out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from joulelab.launch.job_script import Names, script_lines

if TYPE_CHECKING:
    from joulelab.launch.job_script import Work

JOB = "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"
NAMES = Names(
    scheduler="slurm",
    job=JOB,
    index="SLURM_ARRAY_TASK_ID",
    first_index=0,
    number="SLURM_JOB_ID",
    head='head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
)
OUTPUT = "slurm-%A_%a.txt"  # beside the script, and relative: no path has to be quoted for sbatch
OUTPUT_OF_ONE = "slurm-%j.txt"


@dataclass(frozen=True, kw_only=True)
class SlurmJob:
    """What is asked of Slurm. What is empty or 0 is left to the cluster."""

    name: str
    account: str = ""
    partition: str = ""
    qos: str = ""
    time_limit: str = ""
    gpus_per_node: int = 0
    cpus_per_task: int = 0
    mem: str = ""
    exclusive: bool = False
    dependency: str = ""
    at_once: int = 0  # jobs of the array that may run at the same time
    warn_s: int = 120  # before the time limit
    extra: tuple[str, ...] = ()  # options of sbatch


def slurm_script(job: SlurmJob, work: Work) -> str:
    """One job a trial, as an array where there are many; each has one task a node."""
    many = len(work.trials) > 1
    last = f"0-{len(work.trials) - 1}" + (f"%{job.at_once}" if job.at_once else "")
    asked = {
        "job-name": job.name,
        "array": last if many else "",
        "output": OUTPUT if many else OUTPUT_OF_ONE,
        "open-mode": "append",
        "account": job.account,
        "partition": job.partition,
        "qos": job.qos,
        "time": job.time_limit,
        "nodes": str(work.nodes),
        "ntasks-per-node": "1",
        "cpus-per-task": str(job.cpus_per_task or ""),
        "gpus-per-node": str(job.gpus_per_node or ""),
        "mem": job.mem,
        "dependency": job.dependency,
        # To the steps, not to this script: the worker ends its trial in order.
        "signal": f"TERM@{job.warn_s}" if job.warn_s else "",
    }
    options = [f"--{name}={value}" for name, value in asked.items() if value]
    flags = ["--requeue", *(["--exclusive"] if job.exclusive else []), *job.extra]
    # A step is not told by itself how many cores its job has asked for.
    cores = ['export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"'] if job.cpus_per_task else []
    start = f"srun --nodes={work.nodes} --ntasks={work.nodes} --ntasks-per-node=1 --kill-on-bad-exit=1"
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {option}" for option in (*options, *flags)),
        *cores,
        *script_lines(work, names=NAMES, name=job.name, start=start),
    ]
    return "\n".join(lines) + "\n"
