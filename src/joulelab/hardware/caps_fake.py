# SPDX-License-Identifier: Apache-2.0
"""The cap of a fake device: it cuts a power curve that was made up. Nothing real is capped."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from joulelab.errors import InputError
from joulelab.hardware.cap import Cap, FoundCaps
from joulelab.hardware.device import Limits, Problem

if TYPE_CHECKING:
    from joulelab.hardware.fake_cap import CapLog

CONTROL = "limit_mw"


class FakeCap(Cap):
    """A device of `fake:FILE` that has a `cap`. Only who names that file gets this."""

    kinds = ("gpu", "cpu", "node")
    vendor = "fake"
    simulated = True

    def __init__(self, log: CapLog, *, uid: str, kind: str, argument: str) -> None:
        self._log = log
        self.uid = uid
        self.kind = kind
        self.name = f"simulated {kind} {uid.rpartition('-')[2]}"
        self.argument = argument

    @classmethod
    def find(cls, argument: str = "") -> FoundCaps:
        from joulelab.hardware.fake_file import read

        if not argument:
            raise InputError("a fake without a file has no cap", cure="fake:FILE.json with a key 'cap' in it")
        argument = os.path.abspath(argument)  # noqa: PTH100  a link stays the name under which the meter reads it
        devices = read(argument)
        caps = [
            cls(d["cap_log"], uid=d["uid"], kind=d["kind"], argument=argument)
            for d in devices
            if d["cap_log"] is not None
        ]
        if caps:
            return FoundCaps(tuple(caps))
        none = Problem(vendor="fake", what=f"no device of {argument} has a cap", cure="give it the key 'cap'")
        return FoundCaps(problems=(none,))

    def limits(self) -> Limits:
        return self._log.limits()

    def controls(self) -> dict[str, int]:
        return {CONTROL: round(self._log.limits().now_w * 1e3)}

    def wanted(self, power_w: float) -> dict[str, int]:
        return {CONTROL: round(power_w * 1e3)}

    def write(self, control: str, value: int) -> None:
        self._log.put(value / 1e3)

    def why_not(self) -> str:
        return ""
