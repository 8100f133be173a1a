# SPDX-License-Identifier: Apache-2.0
"""A power cap: what it is, what it may be, how to move it. The base class is neutral: nothing moves.

Standard library only: the guardian, a process that must stay light, imports this. Who sets a cap and who puts
it back is decided in `joulelab.knobs`; nothing here remembers anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from joulelab.errors import SensorError

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.hardware.device import Limits, Problem

# A device rounds what it is told. Nearer than this is the same cap.
SAME_W = 0.6


class Cap:
    """The cap of one device: one or more controls, whole numbers in the unit of the vendor."""

    kinds: tuple[str, ...] = ()  # of the devices that this vendor caps: gpu, cpu
    vendor = ""  # its name in CAPS
    argument = ""  # with which `find` finds this one again, from another process
    uid = ""
    name = ""
    kind = ""
    simulated = False
    turn: Path | None = None  # a file that a helper process of `write` keeps locked (flock) while it works

    def limits(self) -> Limits:
        """In force, default, lowest, highest. A default or highest of 0: the device does not tell."""
        raise SensorError(f"{self.name or 'this device'} has no power cap")

    def controls(self) -> dict[str, int]:
        """What there is to put back, as it stands."""
        return {}

    def wanted(self, power_w: float) -> dict[str, int]:
        """The controls that a cap of `power_w` moves, in the order in which they are written."""
        del power_w
        return {}

    def write(self, control: str, value: int) -> None:
        """Move one control; a SensorError with its cure where that is refused."""
        del value
        raise SensorError(f"{self.name or 'this device'} has no control '{control}'")

    def same(self, control: str, one: int, other: int) -> bool:
        """Whether two values of a control are one, given how the device rounds."""
        del control
        return one == other

    def why_not(self) -> str:
        """What speaks against setting it, in words, as far as one can tell without trying; else empty."""
        return f"{self.name or 'this device'} has no power cap"

    def cure(self) -> str:
        """What an administrator does so that this user may set it; empty where only trying would tell."""
        return ""

    def notes(self) -> tuple[str, ...]:
        """What a person who looks at this cap should know."""
        return ()

    def close(self) -> None:
        """Let go of what was opened."""


@dataclass(frozen=True)
class FoundCaps:
    """What one look gave."""

    caps: tuple[Cap, ...] = ()
    problems: tuple[Problem, ...] = ()

    def __add__(self, other: FoundCaps) -> FoundCaps:
        return FoundCaps(self.caps + other.caps, self.problems + other.problems)

    def close(self) -> None:
        for cap in self.caps:
            cap.close()
