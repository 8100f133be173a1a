# SPDX-License-Identifier: Apache-2.0
"""Share of one core, and memory, of the sampler with eight fake GPUs."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path

from joulelab import Meter

SECONDS = 10.0
LOAD = {"shape": "square", "load": {"high_w": 690, "low_w": 125, "high_s": 0.16, "low_s": 0.04}}


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def sampler_pid(runtime: str) -> int:
    """The process that was started on this runtime folder; it is no child of this one."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended meanwhile
        if b"joulelab.meter.sampler" in words and runtime.encode() in words:
            return int(entry.name)
    raise AssertionError(f"no sampler on {runtime}")


def share_of_a_core(pid: int, seconds: float) -> float:
    before_cpu, before = cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(pid) - before_cpu) / (time.monotonic() - before)


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) * 1024 / 1e6


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "fake.json"
        config.write_text(json.dumps({**LOAD, "count": 8, "counter_period_s": 0.1, "buffer_period_s": 0.02}))
        with Meter(devices=[f"fake:{config}"], out=Path(folder) / "out") as meter, meter.window("all"):
            time.sleep(2.0)
            pid = sampler_pid(meter.environment()["JOULELAB_METER"])
            share, memory = share_of_a_core(pid, SECONDS), memory_mb(pid)
    print(json.dumps({"core_percent": share * 100, "memory_mb": memory}))
