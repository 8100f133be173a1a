# SPDX-License-Identifier: Apache-2.0
"""A made-up /sys/class/powercap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

RANGE_UJ = 262_143_328_850


@dataclass
class Powercap:
    root: Path

    def domain(
        self,
        folder: str,
        name: str,
        *,
        energy_uj: int = 0,
        range_uj: int = RANGE_UJ,
        limit_w: float | None = None,
    ) -> Path:
        path = self.root / folder
        path.mkdir(parents=True)
        (path / "name").write_text(f"{name}\n", encoding="ascii")
        (path / "max_energy_range_uj").write_text(f"{range_uj}\n", encoding="ascii")
        if limit_w is not None:
            (path / "constraint_0_name").write_text("long_term\n", encoding="ascii")
            (path / "constraint_0_power_limit_uw").write_text(f"{limit_w * 1e6:.0f}\n", encoding="ascii")
            (path / "constraint_0_max_power_uw").write_text(f"{limit_w * 1e6:.0f}\n", encoding="ascii")
            (path / "constraint_1_power_limit_uw").write_text(f"{limit_w * 1.2e6:.0f}\n", encoding="ascii")
        self.set(folder, energy_uj)
        return path

    def set(self, folder: str, energy_uj: int) -> None:
        # Renamed into place: the kernel never shows half a number either.
        beside = self.root / folder / "energy_uj.new"
        beside.write_text(f"{energy_uj}\n", encoding="ascii")
        beside.replace(self.root / folder / "energy_uj")


def server(root: Path) -> Powercap:
    """Two sockets as the kernel shows them: flat, with psys and the second road to package 0."""
    made = Powercap(root)
    made.domain("intel-rapl:0", "package-0", energy_uj=100_000_000, limit_w=205.0)
    made.domain("intel-rapl:0:0", "core", energy_uj=60_000_000)
    made.domain("intel-rapl:0:1", "dram", energy_uj=30_000_000, range_uj=65_712_999_613)
    made.domain("intel-rapl:1", "package-1", energy_uj=200_000_000, limit_w=205.0)
    made.domain("intel-rapl:1:0", "dram", energy_uj=40_000_000, range_uj=65_712_999_613)
    made.domain("intel-rapl:2", "psys", energy_uj=900_000_000)
    made.domain("intel-rapl-mmio:0", "package-0", energy_uj=100_000_000)
    return made
