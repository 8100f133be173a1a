# SPDX-License-Identifier: Apache-2.0
"""How several workers share a training: what each of them does, and how batch and rate follow their number.

Pure arithmetic: a plan is checked with it before anything starts, and a worker lives by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from joulelab.errors import InputError
from joulelab.knobs.knob import Knob
from joulelab.records.parameter import Parameter, Scalar

if TYPE_CHECKING:
    from collections.abc import Mapping

# What a worker's batch grows with, as a power of the number of workers.
BATCH_RULES = {"constant": 0.0, "cbrt": 1 / 3, "sqrt": 1 / 2, "linear": 1.0}
# The same for the learning rate. `noise` and `adascale` are found on the way: train/noise.py.
RATE_RULES = {"none": 0.0, "sqrt": 1 / 2, "linear": 1.0, "noise": 0.0, "adascale": 0.0}
MEASURED = ("noise", "adascale")


class Workers(Knob):
    parameter: ClassVar[Parameter] = Parameter(
        name="workers",
        kind="int",
        minimum=1,
        maximum=65_536,
        help="processes that train together, one a device; their gradients are averaged",
        unit="workers",
    )


class Sharing(Knob):
    parameter: ClassVar[Parameter] = Parameter(
        name="sharing",
        kind="str",
        choices=("shard", "partition", "whole"),
        help="shard: an epoch's samples are dealt out; partition: the epochs are, each over all samples; "
        "whole: every worker makes all epochs over all samples",
    )


class Emulated(Knob):
    parameter: ClassVar[Parameter] = Parameter(
        name="emulated",
        kind="bool",
        help="one process does the work of all workers in turn: the same updates, not the same time",
    )


class BatchRule(Knob):
    parameter: ClassVar[Parameter] = Parameter(
        name="batch_rule",
        kind="str",
        choices=tuple(BATCH_RULES),
        help="how a worker's batch grows with the number of workers",
    )


class RateRule(Knob):
    parameter: ClassVar[Parameter] = Parameter(
        name="rate_rule",
        kind="str",
        choices=tuple(RATE_RULES),
        help="how the learning rate grows with the number of workers; noise, adascale: by what the gradients "
        "say on the way",
    )


class WarmupUpdates(Knob):
    parameter: ClassVar[Parameter] = Parameter(
        name="warmup_updates",
        kind="int",
        minimum=0,
        help="optimizer steps over which the rate rises from that of one worker to the rule's",
        unit="steps",
    )


class TimelineEvery(Knob):
    parameter: ClassVar[Parameter] = Parameter(
        name="timeline_every",
        kind="int",
        minimum=0,
        help="of so many steps one is noted in detail by each of several workers; 0: none",
        unit="steps",
    )


class Layerwise(Knob):
    parameter: ClassVar[Parameter] = Parameter(
        name="layerwise",
        kind="str",
        choices=("off", "lars", "lamb"),
        help="an optimizer that scales each layer's step by its weights, in the place of the recipe's",
    )


def workers_of(knobs: Mapping[str, Scalar]) -> int:
    return int(knobs.get("workers", 1))


def processes_of(knobs: Mapping[str, Scalar]) -> int:
    """How many processes a trial asks for: workers that are emulated take turns in one."""
    return 1 if knobs.get("emulated") else workers_of(knobs)


def shared(knobs: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """What one worker is given in the place of batch_size, learning_rate and epochs, or an InputError."""
    workers = workers_of(knobs)
    if workers == 1:
        return {}
    given: dict[str, Scalar] = {}  # of a workload that has them
    if "batch_size" in knobs:
        rule = BATCH_RULES[str(knobs.get("batch_rule", "constant"))]
        given["batch_size"] = int(int(knobs["batch_size"]) * workers**rule)
    if "learning_rate" in knobs:
        rule = RATE_RULES[str(knobs.get("rate_rule", "none"))]
        given["learning_rate"] = float(knobs["learning_rate"]) * workers**rule
    if "epochs" in knobs:
        given["epochs"] = _epochs(knobs, workers)
    return given


def _epochs(knobs: Mapping[str, Scalar], workers: int) -> int:
    epochs = int(knobs["epochs"])
    if knobs.get("sharing") != "partition":
        return epochs
    if epochs % workers:
        # With a remainder one worker would go on alone, and wait for the others forever.
        divisors = [str(n) for n in range(1, epochs + 1) if epochs % n == 0]
        raise InputError(
            f"{epochs} epochs cannot be dealt out evenly to {workers} workers",
            cure=f"workers = {', '.join(divisors)}; or sharing = 'shard', which deals out samples",
        )
    return epochs // workers


def check_shared(knobs: Mapping[str, Scalar]) -> None:
    """Refuse, while planning, what no number of workers could do together."""
    shared(knobs)
    if knobs.get("task") == "inference" and workers_of(knobs) > 1:
        raise InputError(
            "several workers and task = 'inference': they have nothing to tell each other", cure="workers = 1"
        )
    if knobs.get("emulated") and workers_of(knobs) > 1 and int(knobs.get("accumulate", 1)) > 1:
        raise InputError(
            "emulated workers and accumulate > 1: a step of theirs is already made of many batches",
            cure="accumulate = 1",
        )
