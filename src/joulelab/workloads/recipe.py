# SPDX-License-Identifier: Apache-2.0
"""What a workload asks for and offers, declared without weight so that a plan is checked without torch."""

from __future__ import annotations

import msgspec

from joulelab.errors import unknown
from joulelab.records.parameter import Parameter, Scalar

# What a training may be asked beside its own knobs: to save itself, and to be shared by several workers.
SHARED: dict[str, Scalar] = {
    "affinity": "off",
    "batch_rule": "constant",
    "checkpoint_keep": 2,
    "checkpoint_minutes": 0.0,
    "checkpoint_steps": 0,
    "layerwise": "off",
    "rate_rule": "none",
    "sharing": "shard",
    "timeline_every": 50,
    "warmup_updates": 0,
    "workers": 1,
}
EMULATED: dict[str, Scalar] = {**SHARED, "emulated": False}


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a workload, and the knobs it listens to with their values in its usual recipe."""

    summary: str
    parameters: tuple[Parameter, ...] = ()
    knobs: dict[str, Scalar] = {}  # knob name to the recipe's own value
    # Knobs it listens to as well, with values that change nothing: a trial holds them only where given.
    quiet: dict[str, Scalar] = {}
    refused: dict[str, dict[str, str]] = {}  # knob, value, and why this workload cannot take it
    figures: tuple[str, ...] = ()  # what an evaluation gives, and a target may name; empty: not known here

    def listens(self) -> dict[str, Scalar]:
        """Every knob it reads, with the value that counts where none is given."""
        return {**self.quiet, **self.knobs}

    def parameter(self, name: str, *, where: str = "") -> Parameter:
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise unknown("parameter", name, [p.name for p in self.parameters], where=where)
