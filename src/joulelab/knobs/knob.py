# SPDX-License-Identifier: Apache-2.0
"""Something a study may vary. The base class is a setting that the recipe reads and nothing else."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from joulelab.records.parameter import Parameter, Scalar


class Knob:
    """A knob knows its legal values without weight, and how to put itself on and back off."""

    parameter: ClassVar[Parameter]

    def check(self, value: object, *, where: str = "") -> Scalar:
        """`value`, or an InputError. Called while planning, on the machine that plans."""
        return self.parameter.check(value, where=where)

    def available(self, value: Scalar) -> str:
        """Why this machine cannot do `value`, in words; empty if it can. Called before a trial starts."""
        del value
        return ""

    def applied(self, value: Scalar) -> AbstractContextManager[None]:
        """The state of the process or the machine that `value` asks for, put back on leaving."""
        del value
        return nullcontext()
