# SPDX-License-Identifier: Apache-2.0
"""Which process is meant: its number, its start, and the start of its machine. Standard library only."""

from __future__ import annotations

from pathlib import Path


def boot_id() -> str:
    """Differs from one start of the machine to the next; empty where the kernel does not tell."""
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else ""


def started(pid: int) -> str:
    """When the process started; empty when there is none. A zombie has ended: its work is over."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]
