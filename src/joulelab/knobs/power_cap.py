# SPDX-License-Identifier: Apache-2.0
"""What the two knobs that cap power have in common: which devices, whether it can be done, and doing it."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from joulelab.errors import InputError, SensorError
from joulelab.hardware.cap import SAME_W, Cap, FoundCaps
from joulelab.hardware.find_caps import find_caps
from joulelab.knobs.hold import held
from joulelab.knobs.knob import Knob
from joulelab.knobs.lease import lease_folder
from joulelab.knobs.watts import AS_IS, normal, power_w, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from joulelab.records.parameter import Scalar

LEGAL = "watts (400), a share of the default (60%), or as-is"
FOLLOW_S = 60.0


class PowerCap(Knob):
    """A cap on every device of one kind that the trial uses. "as-is" touches and opens nothing."""

    of_machine = True

    kind: ClassVar[str] = ""
    words: ClassVar[str] = ""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    def check(self, value: object, *, where: str = "") -> Scalar:
        checked = normal(value)
        if not checked:
            place = f"{where}: " if where else ""
            raise InputError(f"{place}{self.parameter.name} = {value!r} is not legal", cure=f"legal: {LEGAL}")
        return checked

    def refused_here(self, value: Scalar) -> str:
        if value == AS_IS:
            return ""
        found = find_caps(self.kind, self.site.devices)
        try:
            return self._refusal(str(value), found)
        finally:
            found.close()

    def available(self, value: Scalar) -> str:
        return self.refused_here(value)

    @contextmanager
    def applied(self, value: Scalar) -> Iterator[None]:
        if value == AS_IS:
            yield
            return
        found = find_caps(self.kind, self.site.devices)
        try:
            refused = self._refusal(str(value), found)
            if refused:
                raise SensorError(refused)
            if os.environ.get("LOCAL_RANK", "0") != "0":
                # The first worker of a node sets the caps of all that it sees; the others make sure of it.
                follow(found.caps, str(value))
                yield
                return
            wanted = [(cap, _power_w(str(value), cap)) for cap in found.caps]
            folder = lease_folder()
            with held(wanted, folder=folder, trial=self.site.trial, say=self.site.say) as self._rows:
                yield
        finally:
            found.close()

    def told(self) -> list[dict[str, Any]]:
        return [{"knob": self.parameter.name, **row} for row in self._rows]

    def _refusal(self, value: str, found: FoundCaps) -> str:
        name = self.parameter.name
        if not found.caps:
            why = "; ".join(f"{p.vendor}: {p.what}" for p in found.problems)
            return f"{name} = {value}: no {self.words} whose power can be capped was found ({why})"
        for cap in found.caps:
            why = cap.why_not() or _out_of_range(value, cap)
            if why:
                cure = f"\n  {cap.cure()}" if cap.cure() else ""
                return f"{name} = {value}: {why}{cure}"
        return ""


def follow(caps: Sequence[Cap], value: str, *, wait_s: float = FOLLOW_S) -> None:
    """Return when another worker of this node has set these caps; an error if nobody does."""
    until = time.monotonic() + wait_s
    while True:
        off = [cap for cap in caps if abs(cap.limits().now_w - _power_w(value, cap)) > SAME_W]
        if not off:
            return
        if time.monotonic() > until:
            raise SensorError(
                f"{off[0].uid} is at {off[0].limits().now_w:g} W: the first worker of this node has "
                f"not set {value}",
                cure="let every worker of a node see all of its GPUs (no CUDA_VISIBLE_DEVICES of its own)",
            )
        time.sleep(0.05)


def _out_of_range(value: str, cap: Cap) -> str:
    try:
        return refusal(value, cap.limits(), name=f"{cap.name} ({cap.uid})")
    except SensorError as error:
        return error.message


def _power_w(value: str, cap: Cap) -> float:
    asked_w = power_w(value, cap.limits())
    assert asked_w is not None, "refused before"
    return asked_w
