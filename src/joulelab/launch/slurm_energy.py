# SPDX-License-Identifier: Apache-2.0
"""What Slurm's accounting says that a job consumed: a check of our own figure, never in its place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from joulelab.errors import JouleLabError
from joulelab.launch.slurm_commands import call
from joulelab.records import store
from joulelab.records.layout import SCHEMA

if TYPE_CHECKING:
    from joulelab.records.layout import TrialFolder

FIELDS = ("JobID", "ElapsedRaw", "ConsumedEnergyRaw")
ASKED_S = 20.0
# What Slurm writes for an unknown number of 64 bits.
UNKNOWN = {0, 2**64 - 1, 2**64 - 2}
_FACTOR = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class JobEnergy(msgspec.Struct, frozen=True, kw_only=True):
    """Joules of all nodes of a job, from its start to its end, whoever else was on them."""

    scheduler: str
    job: str
    energy_j: float
    elapsed_s: float
    source: str = "reported"
    schema: int = SCHEMA


def joules(text: str) -> float | None:
    """A figure of ConsumedEnergyRaw, or of ConsumedEnergy with its letter; None where it says nothing."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)([KMGT]?)\s*", text)
    if not found:
        return None
    if not found[2] and "." not in found[1] and int(found[1]) in UNKNOWN:
        return None
    return float(found[1]) * _FACTOR[found[2]] or None


def parse_sacct(output: str, *, job: str) -> JobEnergy | None:
    """The job's own row of `sacct -n -P`. Those of its steps overlap: no sum is right."""
    for line in output.splitlines():
        name, elapsed_s, energy = [*line.split("|"), "", "", ""][:3]
        energy_j = joules(energy)
        if name == job and energy_j is not None and elapsed_s.isdigit():
            return JobEnergy(scheduler="slurm", job=job, energy_j=energy_j, elapsed_s=float(elapsed_s))
    return None


class Accounting:
    """Asks sacct, until that has shown that there is none here."""

    def __init__(self) -> None:
        self._is_there = True

    def keep(self, folder: TrialFolder, *, job: str) -> None:
        """Write job_energy.json where there is a figure. A cluster without one is no reason for a word."""
        if not self._is_there:
            return
        try:
            output = call(("sacct", "-j", job, "-n", "-P", f"--format={','.join(FIELDS)}"), timeout_s=ASKED_S)
            found = parse_sacct(output, job=job)
            if found is not None:
                store.write_json(folder.job_energy, found)
        except JouleLabError:
            self._is_there = False
