# SPDX-License-Identifier: Apache-2.0
"""Rated power a thread of CPU models: design power over hardware threads, as their makers publish them."""

from __future__ import annotations

import platform
import re
from pathlib import Path

UNKNOWN_W = 4.0  # a thread of a CPU that is not in the table

# Text in the model's name, rated watts, hardware threads.
MODELS: tuple[tuple[str, float, int], ...] = (
    ("EPYC 9654", 360.0, 192),
    ("EPYC 9554", 360.0, 128),
    ("EPYC 7763", 280.0, 128),
    ("EPYC 7742", 225.0, 128),
    ("EPYC 7543", 225.0, 64),
    ("EPYC 7452", 155.0, 64),
    ("EPYC 7302", 155.0, 32),
    ("Xeon Platinum 8480", 350.0, 112),
    ("Xeon Platinum 8380", 270.0, 80),
    ("Xeon Platinum 8280", 205.0, 56),
    ("Xeon Platinum 8268", 205.0, 48),
    ("Xeon Platinum 8168", 205.0, 48),
    ("Xeon Gold 6348", 235.0, 56),
    ("Xeon Gold 6248R", 205.0, 48),
    ("Xeon Gold 6248", 150.0, 40),
    ("Xeon Gold 6230", 125.0, 40),
    ("Xeon Gold 6148", 150.0, 40),
    ("Xeon Gold 6130", 125.0, 32),
    ("Xeon E5-2698 v4", 135.0, 40),
    ("Xeon E5-2690 v4", 135.0, 28),
    ("Xeon E5-2680 v4", 120.0, 28),
    ("Xeon E5-2650 v4", 105.0, 24),
    ("Core i9-13900K", 125.0, 32),
    ("Core i7-12700K", 125.0, 20),
    ("Core i9-9900K", 95.0, 16),
    ("Ryzen 9 7950X", 170.0, 32),
    ("Ryzen 9 5950X", 105.0, 32),
    ("Ryzen 9 5900X", 105.0, 24),
    ("Ryzen 7 5800X", 105.0, 16),
    ("Ryzen Threadripper 3990X", 280.0, 128),
    ("Ryzen Threadripper PRO 5995WX", 280.0, 128),
)


def watts_per_thread(model: str) -> float | None:
    """Rated watts of one busy hardware thread; None for a model that is not in the table."""
    plain = re.sub(r"\((R|TM|r|tm)\)|\bCPU\b", " ", model)
    plain = " ".join(plain.split())
    for name, rated_w, threads in MODELS:
        # The name must end where it ends in the table: a "5950X3D" is another part than a "5950X".
        if re.search(rf"\b{re.escape(name)}(?![0-9A-Za-z])", plain):
            return rated_w / threads
    return None


def model_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """What this machine calls its CPU; virtual machines often hide it."""
    try:
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "CPU"
