# SPDX-License-Identifier: Apache-2.0
"""The caps of AMD's and Intel's GPUs as their drivers show them in hwmon; no library is needed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from joulelab.errors import SensorError
from joulelab.hardware import cap_file
from joulelab.hardware.cap import SAME_W, Cap, FoundCaps
from joulelab.hardware.device import Limits, Problem

ROOT = Path("/sys/class/drm")


class _HwmonCap(Cap):
    kinds = ("gpu",)
    kind = "gpu"
    drivers: ClassVar[tuple[str, ...]] = ()
    control: ClassVar[str] = ""
    default: ClassVar[str] = ""
    hiding: ClassVar[tuple[str, ...]] = ()  # variables that leave a process only some of the cards

    def __init__(self, folder: Path, *, address: str, root: Path) -> None:
        self.folder = folder
        self.argument = str(root)
        self.uid = f"gpu:{self.vendor}-{address}"
        self.name = f"{cap_file.text(folder / 'name')} {address}"

    @classmethod
    def find(cls, argument: str = "") -> FoundCaps:
        """`argument` is another folder to look in."""
        root = Path(argument) if argument else ROOT
        caps: dict[str, Cap] = {}
        for folder in sorted(root.glob("card*/device/hwmon/hwmon*")):
            if cap_file.text(folder / "name") in cls.drivers and (folder / cls.control).is_file():
                # The card's place on the PCI bus: it stays when the kernel counts its cards anew.
                address = (folder.parents[1]).resolve().name
                caps[address] = cls(folder, address=address, root=root)
        if caps:
            return FoundCaps(tuple(caps.values()))
        what = f"no {' or '.join(cls.drivers)} card with {cls.control} in {root}"
        cure = "no such GPU: all is well; in a container pass /sys in"
        return FoundCaps(problems=(Problem(vendor=cls.vendor, what=what, cure=cure),))

    def controls(self) -> dict[str, int]:
        value = cap_file.number(self.folder / self.control)
        if value is None:
            raise SensorError(f"{self.name}: its cap cannot be read", cure=f"look into {self.folder}")
        return {self.control: value}

    def wanted(self, power_w: float) -> dict[str, int]:
        return {self.control: round(power_w * 1e6)}

    def write(self, control: str, value: int) -> None:
        cap_file.write(self.folder / control, value, name=self.name)

    def same(self, control: str, one: int, other: int) -> bool:
        return abs(one - other) <= SAME_W * 1e6

    def why_not(self) -> str:
        return cap_file.denied([self.folder / self.control]) or self._hidden()

    def cure(self) -> str:
        return cap_file.cure([self.folder / self.control])

    def limits(self) -> Limits:
        default_w = self._watts(self.default)
        now_w = self._watts(self.control)
        return Limits(
            now_w=now_w or default_w,
            default_w=default_w,
            min_w=self._watts(f"{self.control}_min"),
            max_w=self._watts(f"{self.control}_max"),
        )

    def _hidden(self) -> str:
        """The runtimes count their cards in an order of their own, which the kernel does not know."""
        name = next((name for name in self.hiding if os.environ.get(name)), "")
        cards = len(self.find(self.argument).caps)
        if not name or cards < 2:
            return ""
        return f"{name} is set and there are {cards} cards: which of them are meant cannot be told here"

    def _watts(self, file: str) -> float:
        return (cap_file.number(self.folder / file) or 0) / 1e6


class AmdCap(_HwmonCap):
    """amdgpu: `power1_cap`, with its range and its default."""

    vendor = "amd"
    drivers = ("amdgpu",)
    control = "power1_cap"
    default = "power1_cap_default"
    hiding = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


class IntelGpuCap(_HwmonCap):
    """i915 and xe: `power1_max`, 0 while no limit is in force. The rated power stands for a default."""

    vendor = "intel_gpu"
    drivers = ("i915", "xe")
    control = "power1_max"
    default = "power1_rated_max"
    hiding = ("ZE_AFFINITY_MASK",)
