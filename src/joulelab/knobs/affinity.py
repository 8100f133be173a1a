# SPDX-License-Identifier: Apache-2.0
"""Which cores of this machine a worker may use."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from joulelab.knobs.knob import Knob
from joulelab.records.parameter import Parameter, Scalar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Affinity(Knob):
    """Each worker of a machine gets a block of the cores that this job may use, none of them twice."""

    parameter: ClassVar[Parameter] = Parameter(
        name="affinity",
        kind="str",
        choices=("off", "blocks"),
        help="blocks: each worker of a machine keeps to its own cores, as many for each",
    )

    def available(self, value: Scalar) -> str:
        if value == "off":
            return ""
        if not hasattr(os, "sched_setaffinity"):
            return "affinity = 'blocks': this system does not let a process choose its cores"
        here, cores = _local(os.environ)[1], len(os.sched_getaffinity(0))
        return (
            f"affinity = 'blocks': {here} workers and {cores} cores on this machine" if here > cores else ""
        )

    @contextmanager
    def applied(self, value: Scalar) -> Iterator[None]:
        if value == "off":
            yield
            return
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, block(sorted(before), *_local(os.environ)))
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)


def block(cores: list[int], number: int, of: int) -> list[int]:
    """The cores of one worker; what is left over goes to nobody, so that all have as many."""
    each = len(cores) // of
    return cores[number * each : (number + 1) * each]


def _local(environment: Mapping[str, str]) -> tuple[int, int]:
    """Which worker of this machine this is, and of how many."""
    return int(environment.get("LOCAL_RANK", 0)), int(environment.get("LOCAL_WORLD_SIZE", 1))
