# SPDX-License-Identifier: Apache-2.0
"""What one window cost."""

from __future__ import annotations

import math

import msgspec

from joulelab.errors import InputError

SOURCES = ("counter", "integrated", "estimated", "reported")


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds and joules of one window, with the bound of their error and where they come from.

    `energy_j` is None where nothing on the machine could tell (the flags say why); it is never 0 for that
    reason.
    """

    time_s: float
    energy_j: float | None
    energy_error_j: float | None
    energy_j_by_device: dict[str, float] = {}
    power_w: float | None = None
    source: str = "counter"
    resolution_s: float = 0.0
    flags: tuple[str, ...] = ()

    def __add__(self, other: Measurement) -> Measurement:
        if not isinstance(other, Measurement):
            return NotImplemented
        # Where no energy is known, there is none that a sum could hide.
        sources = {each.source for each in (self, other) if each.energy_j is not None}
        if len(sources) > 1:
            raise InputError(
                f"energies from '{self.source}' and '{other.source}' are not alike: a sum would hide it",
                cure="keep them in separate columns, or measure both the same way",
            )
        time_s = self.time_s + other.time_s
        by_device = dict(self.energy_j_by_device)
        for uid, part_j in other.energy_j_by_device.items():
            by_device[uid] = by_device.get(uid, 0.0) + part_j
        energy_j = _sum(self.energy_j, other.energy_j)
        return Measurement(
            time_s=time_s,
            energy_j=energy_j,
            # Bounds add: the errors of two windows may point the same way.
            energy_error_j=_sum(self.energy_error_j, other.energy_error_j),
            energy_j_by_device=by_device,
            power_w=energy_j / time_s if energy_j is not None and time_s > 0 else None,
            source=next(iter(sources), self.source),
            resolution_s=max(self.resolution_s, other.resolution_s),
            flags=tuple(dict.fromkeys(self.flags + other.flags)),
        )

    def less(self, part: Measurement) -> Measurement:
        """What is left when a part of this window is taken away. The bounds add, as in a sum."""
        energy_j = error_j = None
        if self.energy_j is not None and part.energy_j is not None and self.source == part.source:
            energy_j, error_j = self.energy_j - part.energy_j, _sum(self.energy_error_j, part.energy_error_j)
        time_s = self.time_s - part.time_s
        return Measurement(
            time_s=time_s,
            energy_j=energy_j,
            energy_error_j=error_j,
            energy_j_by_device={
                uid: whole_j - part.energy_j_by_device.get(uid, 0.0)
                for uid, whole_j in self.energy_j_by_device.items()
            },
            power_w=energy_j / time_s if energy_j is not None and time_s > 0 else None,
            source=self.source,
            resolution_s=max(self.resolution_s, part.resolution_s),
            flags=tuple(dict.fromkeys(self.flags + part.flags)),
        )

    def __radd__(self, other: object) -> Measurement:
        # sum() begins with a 0 of its own.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def relative_error(self) -> float:
        """Bound of the error as a share of the energy; infinite where there is no energy."""
        if not self.energy_j or self.energy_error_j is None:
            return math.inf
        return abs(self.energy_error_j / self.energy_j)


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b
