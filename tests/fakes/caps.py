# SPDX-License-Identifier: Apache-2.0
"""A machine whose caps can be set: a stand-in for NVIDIA's library and for powercap, both with logs."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes.nvml import FakeNvml, compiled

SHIM = Path(__file__).with_name("logwrites.c")

# What was there before: neither the default nor the highest, so that putting back either would show.
GPU_FOUND_MW, CPU_LONG_UW, CPU_SHORT_UW = 500_000, 180_000_000, 215_000_000


def libraries(folder: Path) -> tuple[Path, Path]:
    """The stand-in for NVML and the logging shim, compiled."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the logging shim cannot be built")
    shim = folder / "liblogwrites.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", shim, SHIM], check=True)
    return compiled(folder), shim


def package(root: Path, number: int = 0, *, kind: str = "intel-rapl") -> Path:
    """A CPU package with all that a cap may move. Each file keeps its length: no write truncates it."""
    folder = root / f"{kind}:{number}"
    folder.mkdir(parents=True)
    files = {
        "name": f"package-{number}",
        "enabled": "0",
        "energy_uj": "100000000",
        "max_energy_range_uj": "262143328850",
        "constraint_0_name": "long_term",
        "constraint_0_power_limit_uw": str(CPU_LONG_UW),
        "constraint_0_time_window_us": "999424",
        "constraint_0_max_power_uw": "205000000",
        "constraint_1_name": "short_term",
        "constraint_1_power_limit_uw": str(CPU_SHORT_UW),
        "constraint_1_time_window_us": "7812",
        "constraint_1_max_power_uw": "410000000",
        "constraint_2_name": "peak_power",
        "constraint_2_power_limit_uw": "500000000",
    }
    for name, value in files.items():
        (folder / name).write_text(f"{value}\n", encoding="ascii")
    return folder


@dataclass(frozen=True)
class Machine:
    """Two boards and two packages below `path`, with the log of everything that set a cap."""

    path: Path
    nvml_library: Path
    shim: Path

    @classmethod
    def make(cls, path: Path, *, nvml_library: Path, shim: Path, **config: float) -> Machine:
        made = cls(path, nvml_library, shim)
        made.leases.mkdir(parents=True)
        made.powercap.mkdir()
        for number in (0, 1):
            package(made.powercap, number)
        FakeNvml(made.config).set(now_w=GPU_FOUND_MW / 1e3, **config)
        return made

    @property
    def leases(self) -> Path:
        return self.path / "leases"

    @property
    def powercap(self) -> Path:
        return self.path / "powercap"

    @property
    def config(self) -> Path:
        return self.path / "nvml.config"

    @property
    def devices(self) -> tuple[str, ...]:
        return ("nvidia", f"rapl:{self.powercap}")

    def environment(self) -> dict[str, str]:
        own = {
            "FAKENVML_CONFIG": str(self.config),
            "JOULELAB_NVML_LIBRARY": str(self.nvml_library),
            "JOULELAB_LEASES": str(self.leases),
            "LD_PRELOAD": str(self.shim),
            "LOGWRITES_ROOT": str(self.powercap),
            "LOGWRITES_LOG": str(self.path / "writes.log"),
        }
        return {**os.environ, **own}

    def state(self) -> dict[str, int]:
        """Every cap as it stands."""
        found = {f"gpu {board}": GPU_FOUND_MW for board in (0, 1)}
        for board, value in self.gpu_log():
            found[f"gpu {board}"] = value
        for file in sorted(self.powercap.glob("*/constraint_*_u[ws]")) + sorted(
            self.powercap.glob("*/enabled")
        ):
            found[str(file.relative_to(self.powercap))] = int(file.read_text(encoding="ascii"))
        return found

    def gpu_log(self) -> list[tuple[int, int]]:
        """Board and mW of every set that was accepted, in order."""
        rows = [line.split() for line in _lines(self.config.with_name("nvml.config.setters"))]
        return [(int(board), int(mw)) for _, _, board, mw, result in rows if result == "0"]

    def cpu_log(self) -> list[tuple[str, int]]:
        """File and value of every write, in order."""
        rows = [line.split() for line in _lines(self.path / "writes.log")]
        return [(str(Path(file).relative_to(self.powercap)), int(value)) for _, _, file, value in rows]


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="ascii").splitlines() if path.exists() else []


NVIDIA_SMI = """#!/usr/bin/env python3
import ctypes, os, sys
uuid, power_w = sys.argv[2], float(sys.argv[4])
lib = ctypes.CDLL(os.environ["JOULELAB_NVML_LIBRARY"])
lib.nvmlInitWithFlags(0)
board = ctypes.c_void_p()
lib.nvmlDeviceGetHandleByIndex_v2(int(uuid[11]), ctypes.byref(board))
sys.exit(lib.nvmlDeviceSetPowerManagementLimit(board, ctypes.c_uint(round(power_w * 1000))))
"""
# As the real one, it leaves only its first three descriptors open.
SUDO = """#!/bin/sh
printf '%s\\n' "$*" >> "LOG"
[ "$1" = -n ] || exit 1
shift
sleep SECONDS
FAKENVML_IS_ROOT=1 exec "$@" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
"""


def allow_sudo(machine: Machine, *, seconds: float = 0.0) -> Path:
    """A folder for PATH in which sudo may run nvidia-smi, and takes its time."""
    programs = machine.path / "bin"
    programs.mkdir()
    sudo = SUDO.replace("LOG", str(machine.path / "sudo.log")).replace("SECONDS", str(seconds))
    for name, text in (("nvidia-smi", NVIDIA_SMI), ("sudo", sudo)):
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    return programs
