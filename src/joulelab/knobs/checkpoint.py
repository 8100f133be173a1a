# SPDX-License-Identifier: Apache-2.0
"""How often a training is saved, so that a trial that was stopped need not begin anew. The loop does it."""

from __future__ import annotations

from typing import ClassVar

from joulelab.knobs.knob import Knob
from joulelab.records.parameter import Parameter


class CheckpointSteps(Knob):
    parameter: ClassVar[Parameter] = Parameter(
        name="checkpoint_steps",
        kind="int",
        minimum=0,
        help="optimizer steps between two checkpoints; 0 takes none by steps",
        unit="steps",
    )


class CheckpointMinutes(Knob):
    parameter: ClassVar[Parameter] = Parameter(
        name="checkpoint_minutes",
        kind="float",
        minimum=0.0,
        help="time between two checkpoints; 0 takes none by time",
        unit="min",
    )


class CheckpointKeep(Knob):
    """Two, so that there is one before the last if that is damaged."""

    parameter: ClassVar[Parameter] = Parameter(
        name="checkpoint_keep",
        kind="int",
        minimum=1,
        help="how many checkpoints stay on the disk; with the trial's end all are removed",
        unit="checkpoints",
    )
