# SPDX-License-Identifier: Apache-2.0
"""Added time of a window around every step of 25 ms, against the same step without, block by block."""

from __future__ import annotations

import json
import statistics
import sys
import time

from tools import pair

STEPS, BLOCKS, STEP_S = 10, 12, 0.025


def work(count: int) -> int:
    total = 0
    for number in range(count):
        total += number * number
    return total


begin, end, close = pair(sys.argv[1])
count = 10_000
while True:
    start = time.perf_counter()
    work(count)
    elapsed = time.perf_counter() - start
    if elapsed >= STEP_S:
        break
    count = int(count * max(1.05, min(4.0, STEP_S / elapsed)))


def block(*, metered: bool) -> float:
    start = time.thread_time()
    for _ in range(STEPS):
        if metered:
            begin()
        work(count)
        if metered:
            end()
    return (time.thread_time() - start) / STEPS


begin()
end()
pairs = []
for number in range(BLOCKS):
    first = block(metered=number % 2 == 0)
    second = block(metered=number % 2 == 1)
    metered, bare = (first, second) if number % 2 == 0 else (second, first)
    pairs.append((metered / bare - 1) * 100)
close()
print(json.dumps({"added_percent": statistics.median(pairs)}))
