# SPDX-License-Identifier: Apache-2.0
"""The cost of a read."""

from __future__ import annotations

import time

from joulelab.hardware.cost import READS, cost_of


def test_waiting_is_wall_time_and_not_cpu_time() -> None:
    cost = cost_of(lambda: time.sleep(0.002))
    assert cost.wall_s >= 0.002
    assert cost.cpu_s < 0.001
    assert cost.reads == READS


def test_the_first_read_is_not_counted() -> None:
    reads: list[int] = []
    cost_of(lambda: reads.append(1))
    assert len(reads) == READS + 1
