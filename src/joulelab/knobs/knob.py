# SPDX-License-Identifier: Apache-2.0
"""Something a study may vary. The base class is a setting that the recipe reads and nothing else."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from joulelab.records.parameter import Parameter, Scalar


def to_log(words: str) -> None:
    """On stderr, which is the log of a trial."""
    sys.stderr.write(f"{words}\n")


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where a knob acts, for those that touch more than their own process."""

    devices: tuple[str, ...] = ()  # as the trial names them; empty: what the machine has
    trial: str = ""  # its folder
    say: Callable[[str], None] = to_log  # to whoever waits for the trial


class Knob:
    """A knob knows its legal values without weight, and how to put itself on and back off."""

    parameter: ClassVar[Parameter]
    of_machine: ClassVar[bool] = False  # of several workers on one machine only the first puts it on
    site = Site()

    def check(self, value: object, *, where: str = "") -> Scalar:
        """`value`, or an InputError. Called while planning, on the machine that plans."""
        return self.parameter.check(value, where=where)

    def refused_here(self, value: Scalar) -> str:
        """Why this machine cannot do `value`, as far as planning can tell; else empty.

        Called while planning where trials run on the machine that plans. No framework is loaded for it.
        """
        del value
        return ""

    def available(self, value: Scalar) -> str:
        """Why this machine cannot do `value`, in words; empty if it can. Called before a trial starts."""
        del value
        return ""

    def applied(self, value: Scalar) -> AbstractContextManager[None]:
        """The state of the process or the machine that `value` asks for, put back on leaving."""
        del value
        return nullcontext()

    def told(self) -> list[dict[str, Any]]:
        """What was found and set, while it is applied, for the record of the trial."""
        return []
