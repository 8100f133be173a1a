# SPDX-License-Identifier: Apache-2.0
"""Which of how many processes this one is, told from the variables that whoever started it has set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Rank:
    """A process among those of its job."""

    rank: int
    local_rank: int  # among those on its node
    world: int  # how many there are
    by: str  # who said so


@dataclass(frozen=True, kw_only=True)
class _Names:
    by: str
    rank: tuple[str, ...]
    local_rank: tuple[str, ...]
    world: tuple[str, ...]
    only_with: str = ""


# The first that fits is believed. Inside one starter there may be another (torchrun under srun, mpirun under
# Slurm), and its variables are still there: the one that stands nearer to the process comes first.
NAMES = (
    _Names(by="torchrun", rank=("RANK",), local_rank=("LOCAL_RANK",), world=("WORLD_SIZE",)),
    # jsrun sets Open MPI's names, too.
    _Names(
        by="jsrun",
        rank=("JSM_NAMESPACE_RANK",),
        local_rank=("JSM_NAMESPACE_LOCAL_RANK",),
        world=("JSM_NAMESPACE_SIZE",),
    ),
    _Names(
        by="Open MPI",
        rank=("OMPI_COMM_WORLD_RANK",),
        local_rank=("OMPI_COMM_WORLD_LOCAL_RANK",),
        world=("OMPI_COMM_WORLD_SIZE",),
    ),
    _Names(by="Flux", rank=("FLUX_TASK_RANK",), local_rank=("FLUX_TASK_LOCAL_ID",), world=("FLUX_JOB_SIZE",)),
    _Names(
        by="PALS",
        rank=("PALS_RANKID", "PMI_RANK"),
        local_rank=("PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"),
        world=("PALS_SIZE", "PMI_SIZE"),
    ),
    # The script of a batch job has a SLURM_PROCID as well, and is no task: only a task has a step.
    _Names(
        by="Slurm",
        rank=("SLURM_PROCID",),
        local_rank=("SLURM_LOCALID",),
        world=("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        only_with="SLURM_STEP_ID",
    ),
)


def rank_of(environment: Mapping[str, str]) -> Rank | None:
    """The place of the process that has this environment; None where it was started alone."""
    for names in NAMES:
        said = [_first(environment, each) for each in (names.rank, names.local_rank, names.world)]
        if None in said or (names.only_with and names.only_with not in environment):
            continue
        rank, local_rank, world = (_number(*each, by=names.by) for each in said if each is not None)
        if not (0 <= local_rank <= rank < world):
            raise InputError(
                f"{names.by} says rank {rank}, on its node {local_rank}, of {world}: that cannot be",
                cure=f"unset {said[0][0] if said[0] else ''}, or start the processes by one starter only",
            )
        return Rank(rank=rank, local_rank=local_rank, world=world, by=names.by)
    return None


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str] | None:
    return next(((name, environment[name]) for name in names if name in environment), None)


def _number(name: str, text: str, *, by: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise InputError(
            f"{name} = {text!r}, which {by} sets, is not a whole number", cure=f"unset {name}"
        ) from error
