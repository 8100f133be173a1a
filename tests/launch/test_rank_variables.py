# SPDX-License-Identifier: Apache-2.0
"""Ranks out of variables, as each starter sets them, and where one starter stands inside another."""

from __future__ import annotations

import pytest

from joulelab.errors import InputError
from joulelab.launch.rank_variables import rank_of

TORCHRUN = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}
SLURM = {"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "0"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_SIZE": "4",
}
JSRUN = {"JSM_NAMESPACE_RANK": "7", "JSM_NAMESPACE_LOCAL_RANK": "1", "JSM_NAMESPACE_SIZE": "12"}


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (TORCHRUN, (3, 1, 8, "torchrun")),
        (SLURM, (5, 1, 8, "Slurm")),
        ({**SLURM, "SLURM_STEP_NUM_TASKS": "6"}, (5, 1, 6, "Slurm")),
        (OPEN_MPI, (2, 0, 4, "Open MPI")),
        (JSRUN, (7, 1, 12, "jsrun")),
        ({"PALS_RANKID": "4", "PALS_LOCAL_RANKID": "0", "PMI_SIZE": "8"}, (4, 0, 8, "PALS")),
        ({"PMI_RANK": "4", "PMI_LOCAL_RANK": "2", "PMI_SIZE": "8"}, (4, 2, 8, "PALS")),
        ({"FLUX_TASK_RANK": "1", "FLUX_TASK_LOCAL_ID": "1", "FLUX_JOB_SIZE": "2"}, (1, 1, 2, "Flux")),
        # The nearer starter is believed.
        ({**SLURM, **TORCHRUN}, (3, 1, 8, "torchrun")),
        ({**SLURM, **OPEN_MPI}, (2, 0, 4, "Open MPI")),
        ({**OPEN_MPI, **JSRUN}, (7, 1, 12, "jsrun")),
    ],
)
def test_ranks(environment: dict[str, str], said: tuple[int, int, int, str]) -> None:
    found = rank_of(environment)
    assert found is not None
    assert (found.rank, found.local_rank, found.world, found.by) == said


@pytest.mark.parametrize(
    "environment",
    [
        {},
        # The script of a batch job is no task of it.
        {name: value for name, value in SLURM.items() if name != "SLURM_STEP_ID"},
        {"RANK": "0", "WORLD_SIZE": "1"},
    ],
)
def test_a_process_that_was_started_alone(environment: dict[str, str]) -> None:
    assert rank_of(environment) is None


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match=r"RANK = 'x', which torchrun sets, is not a whole number"):
        rank_of({**TORCHRUN, "RANK": "x"})
    with pytest.raises(InputError, match=r"rank 3, on its node 1, of 2: that cannot be"):
        rank_of({**TORCHRUN, "WORLD_SIZE": "2"})
