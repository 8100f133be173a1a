# SPDX-License-Identifier: Apache-2.0
"""Where a figure was made: hardware, software, source revision. Written into host.json beside the figures."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import os
import platform
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joulelab.records import store
from joulelab.records.layout import SCHEMA, TrialFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from joulelab.records.measurement import Measurement

PACKAGES = ("joulelab", "torch", "numpy", "numba", "pandas", "polars", "msgspec", "nvidia-ml-py")
# Names that change what training costs. Values of other variables may be secrets and are not kept.
ENVIRONMENT = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUBLAS_WORKSPACE_CONFIG",
    "NVIDIA_TF32_OVERRIDE",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "KMP_AFFINITY",
    "NUMBA_NUM_THREADS",
    "WORLD_SIZE",
    "RANK",
    "LOCAL_RANK",
    "SLURM_JOB_ID",
    "SLURM_NNODES",
    "SLURM_NTASKS",
    "SLURM_CPUS_PER_TASK",
    "JOULELAB_DEVICES",
)


def write_host(
    folder: TrialFolder,
    *,
    devices: Sequence[dict[str, Any]] = (),
    problems: Sequence[str] = (),
    idle: Measurement | None = None,
    **more: Any,
) -> None:
    """host.json: everything about the place that a reader of the figures may ask for."""
    idle_w = None if idle is None else idle.power_w
    content = {
        **describe(),
        "devices": list(devices),
        "problems": list(problems),
        "idle_power_w": idle_w,
        "idle": idle,
        **more,
    }
    store.write_json(folder.host, content)


def describe() -> dict[str, Any]:
    """This machine, this software, this source tree."""
    here = working_folder()
    return {
        "schema": SCHEMA,
        "host": socket.gethostname(),
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),  # noqa: TID251  a date, no duration
        "clock": {"monotonic_ns": time.monotonic_ns(), "wall_ns": time.time_ns()},
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": cpu_name(),
        "cpu_count": os.cpu_count(),
        "cpu_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": memory_gib(),
        "python": platform.python_version(),
        "versions": versions(),
        "driver": driver(),
        "command": [sys.executable, *sys.argv],
        "folder": str(here or ""),
        "environment": {name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
        "source": revision(here) if here is not None else {},
    }


def working_folder() -> Path | None:
    """The working directory; None where somebody has removed it meanwhile."""
    try:
        return Path.cwd()
    except OSError:
        return None


def versions() -> dict[str, str]:
    """Installed versions, read from package metadata: nothing is imported for it."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def revision(folder: Path) -> dict[str, Any]:
    """The git revision of the tree that is run, and the difference to it; empty outside a checkout."""
    head = _git(folder, "rev-parse", "HEAD")
    if not head:
        return {}
    difference = _git(folder, "diff", "HEAD")
    # A long difference is a sign of generated files: its beginning is kept, and its length.
    return {
        "revision": head,
        "dirty": bool(difference),
        "diff": difference[:20_000],
        "diff_characters": len(difference),
    }


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def cpu_name() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text(errors="replace").splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def memory_gib() -> float:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def driver() -> str:
    """The version of the NVIDIA kernel driver, from the file that it keeps; empty where there is none."""
    path = Path("/proc/driver/nvidia/version")
    return path.read_text(errors="replace").partition("\n")[0] if path.exists() else ""
