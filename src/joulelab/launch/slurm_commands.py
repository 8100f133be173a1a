# SPDX-License-Identifier: Apache-2.0
"""Slurm's own commands: run within a stated time, refused in words, and their output read."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

from joulelab.errors import TrialError
from joulelab.launch.queue import OVER, RUNNING, WAITING, JobState, NoAnswerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

ANSWER_S = 60.0  # the commands themselves give up after about ten seconds
SILENT = re.compile(r"unable to contact|connect failure|timed out|connection refused", re.IGNORECASE)

_WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"}
_WAITING |= {"RESV_DEL_HOLD"}
_OVER = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
_OVER |= {"PREEMPTED", "REVOKED", "TIMEOUT"}
# Job, state, name, nodes, and last the reason, for it may hold anything.
SQUEUE = ("squeue", "-h", "-r", "-t", "all", "-o", "%i|%T|%j|%N|%r")


def call(command: Sequence[str], *, cwd: Path | None = None, timeout_s: float = ANSWER_S) -> str:
    """The output of a command; NoAnswerError where the controller is silent, TrialError where it refuses."""
    name = command[0]
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment(),
            cwd=cwd,
            timeout=timeout_s,
            check=False,
            # Ctrl-C is for this process: a question that is under way is answered first.
            process_group=0,
        )
    except FileNotFoundError as error:
        raise TrialError(
            f"there is no command '{name}' here",
            cure='run this on a login node of a Slurm cluster, or set launcher = "local"',
        ) from error
    except subprocess.TimeoutExpired as error:
        raise NoAnswerError(
            f"{name} gave no answer within {timeout_s:g} s",
            cure="`sinfo` says whether Slurm is up; try later",
        ) from error
    except OSError as error:
        raise TrialError(f"{name} cannot be run: {error.strerror}", cure=f"see `which {name}`") from error
    if done.returncode == 0:
        return done.stdout.decode(errors="replace")
    said = " ".join(done.stderr.decode(errors="replace").split()) or f"exit status {done.returncode}"
    if SILENT.search(said):
        raise NoAnswerError(
            f"the controller of Slurm does not answer: {said}", cure="`sinfo` says whether it is up"
        )
    raise TrialError(f"{name} refuses: {said}", cure=cure_of(said))


def environment() -> dict[str, str]:
    """Without what a job around this process would hand down to those it asks for."""
    kept = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT")
    return {
        name: value for name, value in os.environ.items() if name in kept or not name.startswith("SLURM_")
    }


CURES = (
    ("partition", "set partition in [slurm]; `sinfo -s` lists the legal ones"),
    ("account", "set account in [slurm]; `sacctmgr show associations user=$USER` lists yours"),
    ("time limit", "set time_limit in [slurm]; `sinfo -o '%P %l'` lists the longest of each partition"),
    ("node configuration", "ask for less in [slurm]: `sinfo -o '%P %D %c %m %G'` says what nodes have"),
    ("more processors", "ask for less in [slurm]: `sinfo -o '%P %D %c %m %G'` says what nodes have"),
    ("node count", "set nodes in [slurm] to what the partition has: `sinfo -s`"),
    ("generic resource", "set gpus_per_node in [slurm] to what nodes have: `sinfo -o '%P %G'`"),
    ("gres", "set gpus_per_node in [slurm] to what nodes have: `sinfo -o '%P %G'`"),
    ("submit limit", "wait until jobs of yours have ended; the same command goes on"),
    ("policy", "ask for less in [slurm], or set its qos"),
    ("unrecognized option", "mend `extra` in [slurm]: `man sbatch` lists the legal options"),
)


# Reasons for which a job waits until somebody does something.
STUCK = {
    "PartitionNodeLimit": "set nodes in [slurm] to what the partition has, `sinfo -s`",
    "PartitionTimeLimit": "set time_limit in [slurm] to less, `sinfo -o '%P %l'`",
    "BadConstraints": "no node has what is asked for in [slurm]",
    "InvalidAccount": "set account in [slurm]",
    "AccountNotAllowed": "set account or partition in [slurm]",
    "InvalidQOS": "set qos in [slurm]",
    "QOSNotAllowed": "set qos or partition in [slurm]",
    "DependencyNeverSatisfied": "mend dependency in [slurm]",
    "JobHeldUser": "`scontrol release JOB`",
    "JobHeldAdmin": "ask the administrators",
}


def waiting_cure(reason: str) -> str:
    """What ends the waiting, after a colon; empty where time alone does. Slurm may say more after a blank."""
    cure = STUCK.get(reason.split(" ", 1)[0].strip("(),"))
    return f": this does not end by itself: {cure}" if cure else ""


def cure_of(refusal: str) -> str:
    lower = refusal.lower()
    return next((cure for word, cure in CURES if word in lower), "mend [slurm] in the study file")


def parse_submitted(output: str) -> str:
    """The number of the job out of `sbatch --parsable`: JOB or JOB;CLUSTER."""
    job = output.strip().splitlines()[-1].partition(";")[0] if output.strip() else ""
    if not job.isdigit():
        raise TrialError(
            f"sbatch names no job: {output.strip()!r}", cure="`squeue --me` shows whether it was submitted"
        )
    return job


def parse_squeue(output: str) -> Iterator[tuple[str, str, JobState]]:
    """Job, its name and how it stands, a line each."""
    for line in output.splitlines():
        job, state, name, nodes, reason = (line.split("|", 4) + [""] * 5)[:5]
        if state:
            said = "" if reason == "None" else reason
            yield job, name, JobState(phase=phase_of(state), state=state, reason=said, nodes=nodes)


def phase_of(state: str) -> str:
    """A state that nobody has heard of is no reason to give a job up."""
    return WAITING if state in _WAITING else OVER if state in _OVER else RUNNING


def parse_fields(output: str) -> dict[str, str]:
    """The fields of `scontrol show`: NAME=VALUE, with blanks between; a value may hold `=`."""
    return dict(re.findall(r"(?:^|\s)([A-Z][\w:/]*)=(\S*)", output))


def parse_max_array(output: str) -> int:
    """How many jobs an array may hold, out of `scontrol show config`; Slurm's default where it is silent."""
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", output, re.MULTILINE)
    return max(1, int(found[1])) if found else 1001
