# SPDX-License-Identifier: Apache-2.0
"""The cap of a CPU package: the long-term and the short-term limit of the kernel's powercap files.

Both limits are set to the cap: with the short one left where it was, every burst would run above it. The time
windows and the switch are noted and put back where the kernel or the firmware moved them, and only there:
what is read from a window is rounded, and writing it back would move it by a step.
"""

from __future__ import annotations

from pathlib import Path

from joulelab.errors import SensorError
from joulelab.hardware import cap_file
from joulelab.hardware.cap import SAME_W, Cap, FoundCaps
from joulelab.hardware.device import Limits, Problem

ROOT = Path("/sys/class/powercap")
LONG, SHORT = "long_term", "short_term"
LIMIT, WINDOW, MOST = "power_limit_uw", "time_window_us", "max_power_uw"


class RaplCap(Cap):
    """One package."""

    kinds = ("cpu",)
    vendor = "rapl"
    kind = "cpu"

    def __init__(self, folder: Path, *, name: str, twin: Path | None = None) -> None:
        self.folder = folder
        self.argument = str(folder.parent)
        self.uid = f"cpu:{name}"
        self.name = name
        self._twin = twin  # the second road to the same package: the lower of the two limits holds
        self._terms = _terms(folder)

    @classmethod
    def find(cls, argument: str = "") -> FoundCaps:
        """`argument` is another folder to look in."""
        root = Path(argument) if argument else ROOT
        caps: list[Cap] = []
        for folder in sorted(root.glob("intel-rapl:*"), key=lambda path: path.name):
            name = cap_file.text(folder / "name")
            if folder.name.count(":") == 1 and name.startswith("package") and LONG in _terms(folder):
                caps.append(cls(folder, name=name, twin=_twin(root, name)))
        if caps:
            return FoundCaps(tuple(caps))
        what = f"no CPU package whose power can be capped (no intel-rapl with a long-term limit in {root})"
        cure = "AMD tells no limits here, and virtual machines and containers show none: measure on the host"
        return FoundCaps(problems=(Problem(vendor="rapl", what=what, cure=cure),))

    def limits(self) -> Limits:
        long = self._terms[LONG]
        now_uw = cap_file.number(self.folder / f"{long}_{LIMIT}")
        if now_uw is None:
            raise SensorError(f"{self.name}: its limit cannot be read", cure=f"look into {self.folder}")
        rated_uw = cap_file.number(self.folder / f"{long}_{MOST}") or 0
        most_uw = max(cap_file.number(self.folder / f"{term}_{MOST}") or 0 for term in self._terms.values())
        return Limits(
            now_w=min(now_uw, self._twin_uw() or now_uw) / 1e6,
            # The kernel names no default. The rated power is what a long-term limit is delivered with.
            default_w=rated_uw / 1e6,
            min_w=0.0,
            max_w=max(most_uw, now_uw) / 1e6 if most_uw else 0.0,
        )

    def controls(self) -> dict[str, int]:
        terms = [self._terms[term] for term in (LONG, SHORT) if term in self._terms]
        names = [f"{term}_{what}" for what in (LIMIT, WINDOW) for term in terms] + ["enabled"]
        found = {name: cap_file.number(self.folder / name) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    def wanted(self, power_w: float) -> dict[str, int]:
        there = self.controls()
        moved = {name: round(power_w * 1e6) for name in there if name.endswith(LIMIT)}
        # Switched on last, so that no other limit than the one asked for is ever in force.
        return moved | ({"enabled": 1} if "enabled" in there else {})

    def write(self, control: str, value: int) -> None:
        cap_file.write(self.folder / control, value, name=self.name)

    def same(self, control: str, one: int, other: int) -> bool:
        return abs(one - other) <= SAME_W * 1e6 if control.endswith(LIMIT) else one == other

    def why_not(self) -> str:
        files = [self.folder / name for name in self.controls() if not name.endswith(WINDOW)]
        return cap_file.denied(files)

    def cure(self) -> str:
        return cap_file.cure([self.folder / name for name in self.controls()])

    def notes(self) -> tuple[str, ...]:
        if self._twin_uw() is None:
            return ()
        return ("the memory-mapped twin has a limit too: the lower of the two holds",)

    def _twin_uw(self) -> int | None:
        if self._twin is None or cap_file.number(self._twin / "enabled") == 0:
            return None
        term = _terms(self._twin).get(LONG)
        return (cap_file.number(self._twin / f"{term}_{LIMIT}") or None) if term else None


def _terms(folder: Path) -> dict[str, str]:
    """ "long_term" and "short_term" to "constraint_N"; their numbers are not the same everywhere."""
    found = {}
    for path in sorted(folder.glob("constraint_*_name")):
        term = cap_file.text(path)
        if term in {LONG, SHORT}:
            found[term] = path.name.removesuffix("_name")
    return found


def _twin(root: Path, name: str) -> Path | None:
    twins = (path for path in root.glob("intel-rapl-mmio:*") if path.name.count(":") == 1)
    return next((path for path in twins if cap_file.text(path / "name") == name), None)
