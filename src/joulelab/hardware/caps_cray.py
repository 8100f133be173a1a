# SPDX-License-Identifier: Apache-2.0
"""The caps that a Cray's node controller holds: shown, not set.

The files in pm_counters can be read by everybody and written by nobody. An accelerator's cap is set through
its own vendor (`nvidia`, `amd`), and what the controller makes of that can be read here.
"""

from __future__ import annotations

from pathlib import Path

from joulelab.errors import SensorError
from joulelab.hardware import cap_file
from joulelab.hardware.cap import Cap, FoundCaps
from joulelab.hardware.device import Limits, Problem

ROOT = Path("/sys/cray/pm_counters")


class CrayCap(Cap):
    """One `accelN_power_cap`, or `power_cap` of the node: "400 W 1234567 us"; 0 W is none."""

    kinds = ("gpu", "node")
    vendor = "cray"

    def __init__(self, file: Path) -> None:
        self._file = file
        accelerator = file.name.removesuffix("power_cap").rstrip("_")
        self.argument = str(file.parent)
        self.kind = "gpu" if accelerator else "node"
        self.uid = f"{self.kind}:cray-{accelerator or 'node'}"
        self.name = f"Cray {accelerator or 'node'}"

    @classmethod
    def find(cls, argument: str = "") -> FoundCaps:
        """`argument` is another folder to look in."""
        root = Path(argument) if argument else ROOT
        files = sorted([*root.glob("accel*_power_cap"), *root.glob("power_cap")])
        if files:
            return FoundCaps(tuple(cls(file) for file in files))
        what, cure = f"no power_cap in {root}", "not a Cray: all is well"
        return FoundCaps(problems=(Problem(vendor="cray", what=what, cure=cure),))

    def limits(self) -> Limits:
        power_w = cap_file.number(self._file)
        if power_w is None:
            raise SensorError(f"{self.name}: its cap cannot be read", cure=f"look at {self._file}")
        return Limits(now_w=float(power_w), default_w=0.0, min_w=0.0, max_w=0.0)

    def why_not(self) -> str:
        return (
            f"{self.name}: its node controller sets this cap (an administrator: `capmc`, or the power "
            f"control "
            "service); a GPU is capped through its own vendor"
        )
