# SPDX-License-Identifier: Apache-2.0
"""What one read of a sensor costs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

READS = 20


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one read takes: medians of `reads` reads."""

    wall_s: float
    cpu_s: float
    reads: int


def cost_of(read: Callable[[], object]) -> Cost:
    """Read again and again without pause."""
    read()  # the first one opens files and fills caches
    walls_s, cpus_s = [], []
    for _ in range(READS):
        wall_ns, cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
        read()
        cpus_s.append((time.thread_time_ns() - cpu_ns) / 1e9)
        walls_s.append((time.perf_counter_ns() - wall_ns) / 1e9)
    return Cost(wall_s=statistics.median(walls_s), cpu_s=statistics.median(cpus_s), reads=READS)
