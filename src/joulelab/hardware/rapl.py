# SPDX-License-Identifier: Apache-2.0
"""CPU packages and DRAM of Intel and AMD through the kernel's powercap files.

The sum is packages plus DRAM. Cores lie inside their package, psys holds the packages, and
intel-rapl-mmio is package 0 a second time, so it is not listed at all.
"""

from __future__ import annotations

from pathlib import Path

from joulelab.errors import SensorError
from joulelab.hardware.device import Device, Found, Limits, Problem, Traits

ROOT = Path("/sys/class/powercap")
GUESSED_MAX_W = 400.0  # where the kernel tells no limit, as on AMD
# Counters have 32 bits in a unit that differs between domains and models.
COUNTER_STEPS = 2**32 - 1

SCOPES = {
    "cpu": "the whole package: cores, caches, memory controller; DRAM apart",
    "dram": "the memory modules of this package, not part of the package's own figure",
    "core": "the cores alone, contained in the package",
    "uncore": "caches or the built-in GPU alone, contained in the package",
    "node": "the whole platform as its designer wired it, packages included",
}


class Rapl(Device):
    """One domain, read from its `energy_uj`."""

    def __init__(self, folder: Path, *, kind: str, uid: str, name: str, part_of: str = "") -> None:
        self.folder = folder
        self.kind = kind
        self.uid = uid
        self.name = name
        self.part_of = part_of
        self.scope = SCOPES.get(uid.partition(":")[0], "a part of the package, contained in it")
        self.source = "counter"
        range_uj = _number(folder / "max_energy_range_uj")
        self.energy_j()  # a counter that cannot be read is found out here
        self.traits = Traits(
            counter_period_s=0.001,
            # The file holds the highest value; the next one is 0.
            counter_range_j=range_uj * (1.0 + 1.0 / COUNTER_STEPS) / 1e6 if range_uj else None,
            power_max_w=self._max_w() or GUESSED_MAX_W,
            gain_error=0.05,
        )

    @classmethod
    def find(cls, argument: str = "") -> Found:
        """`argument` is another folder to look in."""
        root = Path(argument) if argument else ROOT
        folders = _domains(root)
        if not folders:
            return Found(problems=(_absent(root),))
        devices: list[Device] = []
        denied: list[str] = []
        problems: list[Problem] = []
        for folder, kind, uid, name, part_of in _described(folders):
            try:
                devices.append(cls(folder, kind=kind, uid=uid, name=name, part_of=part_of))
            except SensorError as error:
                if isinstance(error.__cause__, PermissionError):
                    denied.append(name)
                else:
                    problems.append(Problem(vendor="rapl", what=error.message, cure=error.cure))
        if denied:
            problems.append(_denied(denied, root=root))
        _keep_sum_clean(devices)
        return Found(tuple(devices), tuple(problems))

    def energy_j(self) -> float:
        """The counter as it stands; it starts again at `traits.counter_range_j`."""
        path = self.folder / "energy_uj"
        try:
            return int(path.read_text(encoding="ascii")) / 1e6
        except (OSError, ValueError) as error:
            what = f"{self.name}: {path} cannot be read: {error}"
            raise SensorError(what, cure="see `joulelab doctor`") from error

    def limits(self) -> Limits | None:
        """The long-term limit. The kernel names no lowest and no default: the highest stands for it."""
        now_uw = _number(self.folder / "constraint_0_power_limit_uw")
        if not now_uw:
            return None
        max_w = (_number(self.folder / "constraint_0_max_power_uw") or now_uw) / 1e6
        return Limits(now_w=now_uw / 1e6, default_w=max_w, min_w=0.0, max_w=max(max_w, now_uw / 1e6))

    def _max_w(self) -> float:
        names = [f"constraint_{i}_{what}_uw" for i in (0, 1, 2) for what in ("power_limit", "max_power")]
        return max(_number(self.folder / name) for name in names) / 1e6


def _domains(root: Path) -> list[Path]:
    """Folders of the domains, parents first. /sys/class/powercap is flat; /sys/devices is nested."""
    found: dict[str, Path] = {}
    for pattern in ("intel-rapl:*", "intel-rapl:*/intel-rapl:*"):
        for folder in root.glob(pattern):
            if (folder / "name").is_file():
                found.setdefault(folder.name, folder)
    return [found[name] for name in sorted(found, key=lambda n: [int(x) for x in n.split(":")[1:]])]


def _described(folders: list[Path]) -> list[tuple[Path, str, str, str, str]]:
    """Folder, kind, uid, name, part_of of each domain."""
    rows = []
    top: dict[str, str] = {}  # "intel-rapl:0" to "package-0"
    for folder in folders:
        what = (folder / "name").read_text(encoding="ascii").strip()
        parent = top.get(folder.name.rpartition(":")[0], "")
        if folder.name.count(":") == 1:
            top[folder.name] = what
            kind = "cpu" if what.startswith("package") else "node"
            rows.append((folder, kind, f"{kind}:{what}", what, ""))
        elif what == "dram":
            rows.append((folder, "dram", f"dram:{parent}", f"dram of {parent}", ""))
        else:
            rows.append((folder, "cpu", f"{what}:{parent}", f"{what} of {parent}", f"cpu:{parent}"))
    return rows


def _keep_sum_clean(devices: list[Device]) -> None:
    """Psys would count the packages twice: it is marked as told by a package, which is summed instead."""
    packages = [d.uid for d in devices if d.uid.startswith("cpu:")]
    for device in devices:
        if device.kind == "node" and packages:
            device.part_of = packages[0]


def _number(path: Path) -> float:
    """The file as a number; 0, the kernel's own word for "no limit", where it is missing or denied."""
    try:
        return float(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0.0


def _absent(root: Path) -> Problem:
    return Problem(
        vendor="rapl",
        what=f"no CPU energy counter (no intel-rapl in {root})",
        cure="on bare metal: sudo modprobe -a intel_rapl_common intel_rapl_msr; "
        "a virtual machine or container does not see it, so measure on the host",
    )


def _denied(names: list[str], *, root: Path) -> Problem:
    rule = 'SUBSYSTEM=="powercap", ACTION=="add", RUN+="/bin/chmod a+r /sys%p/energy_uj"'
    return Problem(
        vendor="rapl",
        what=f"no permission to read the energy of {', '.join(names)} "
        "(for root only since CVE-2020-8694: fine power readings can betray other users' secrets)",
        cure=f"until the next boot: sudo chmod a+r {root}/intel-rapl*/energy_uj\n"
        f"  for good: echo '{rule}' | sudo tee /etc/udev/rules.d/60-powercap.rules",
    )
