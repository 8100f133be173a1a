# SPDX-License-Identifier: Apache-2.0
"""What a training is to reach: it stops there, and what it cost until then is its energy to the target."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from joulelab.errors import InputError, unknown
from joulelab.knobs.knob import Knob
from joulelab.records.parameter import Parameter, Scalar

_FORM = re.compile(r"\s*(\w+)\s*(>=|<=)\s*([-+.\deE]+)\s*")


@dataclass(frozen=True)
class Target:
    """A named figure and the value that it must reach, from below or from above."""

    figure: str
    above: bool
    value: float

    def reached(self, figures: Mapping[str, float]) -> bool:
        """Whether these figures, of one epoch, have reached it."""
        if self.figure not in figures:
            raise unknown("figure in the target", self.figure, figures)
        found = figures[self.figure]
        return found >= self.value if self.above else found <= self.value


def parse(text: str) -> Target | None:
    """The target that a text asks for, None where it asks for none; ValueError where it cannot be read."""
    if not text.strip():
        return None
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return Target(found[1], found[2] == ">=", float(found[3]))


class TargetKnob(Knob):
    """`epochs` stays the limit: a training that has not reached its target then has no energy to it."""

    parameter: ClassVar[Parameter] = Parameter(
        name="target",
        kind="str",
        help='stop when an evaluation reaches this, such as "val_accuracy >= 0.9"; empty: all epochs',
    )

    def check(self, value: object, *, where: str = "") -> Scalar:
        text = super().check(value, where=where)
        try:
            parse(str(text))
        except ValueError as error:
            raise InputError(
                f"{where}: " * bool(where) + f"target = {text!r} cannot be read",
                cure='legal: a figure of the evaluation, >= or <=, and a number: "val_accuracy >= 0.9"',
            ) from error
        return text
