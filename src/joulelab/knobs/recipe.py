# SPDX-License-Identifier: Apache-2.0
"""Knobs that a workload reads itself: nothing on the machine is changed for them."""

from __future__ import annotations

import importlib.util
from typing import ClassVar

from joulelab.data import LIBRARIES, LOADERS
from joulelab.errors import InputError
from joulelab.knobs.knob import Knob
from joulelab.records.parameter import Parameter, Scalar


class BatchSize(Knob):
    parameter: ClassVar[Parameter] = Parameter(
        name="batch_size", kind="int", minimum=1, help="samples in one batch", unit="samples"
    )


class Accumulate(Knob):
    parameter: ClassVar[Parameter] = Parameter(
        name="accumulate",
        kind="int",
        minimum=1,
        help="batches whose gradients are averaged for one optimizer step",
        unit="batches",
    )


class Epochs(Knob):
    parameter: ClassVar[Parameter] = Parameter(
        name="epochs", kind="int", minimum=1, help="passes over the training set", unit="epochs"
    )


class MemoryFormat(Knob):
    """The loop puts the network's weights in this order; convolutions then work in it."""

    parameter: ClassVar[Parameter] = Parameter(
        name="memory_format",
        kind="str",
        choices=("contiguous", "channels_last"),
        help="order of images in memory: channel by channel, or pixel by pixel",
    )


class Task(Knob):
    parameter: ClassVar[Parameter] = Parameter(
        name="task",
        kind="str",
        choices=("train", "inference"),
        help="inference: `epochs` passes of a fresh network over the held-out data, and no training",
    )


class LearningRate(Knob):
    parameter: ClassVar[Parameter] = Parameter(
        name="learning_rate", kind="float", minimum=1e-9, maximum=1e3, help="step size at the start"
    )


class Loader(Knob):
    """Which function reads the files: a name from the table, or `package.module:function`."""

    parameter: ClassVar[Parameter] = Parameter(
        name="loader", kind="str", choices=tuple(LOADERS), help="what reads the CSV files"
    )

    def check(self, value: object, *, where: str = "") -> Scalar:
        if isinstance(value, str) and ":" in value:
            module = value.partition(":")[0]
            if not _is_module(module):
                raise InputError(
                    f"{where}: " * bool(where) + f"loader '{value}': there is no module '{module}'",
                    cure="install it, or put its folder on PYTHONPATH",
                )
            return value
        return super().check(value, where=where)

    def available(self, value: Scalar) -> str:
        library = LIBRARIES.get(str(value))
        if library and importlib.util.find_spec(library) is None:
            return (
                f"loader '{value}' needs {library}, which is not installed: pip install 'joulelab[loaders]'"
            )
        return ""


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
