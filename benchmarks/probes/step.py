# SPDX-License-Identifier: Apache-2.0
"""Added time of a window around every step of 25 ms, against the same step without, step by step."""

from __future__ import annotations

import json
import statistics
import sys
import time

from tools import pair

PAIRS, STEP_S = 150, 0.025


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


def step(*, metered: bool) -> float:
    start = time.thread_time()
    if metered:
        begin()
    work(count)
    if metered:
        end()
    return time.thread_time() - start


for _ in range(4):
    step(metered=True)
ratios = []
for number in range(PAIRS):
    # Neighbours are compared, and who goes first changes, so that a slow drift of the clock falls on both.
    first_metered = number % 2 == 0
    first, second = step(metered=first_metered), step(metered=not first_metered)
    metered, bare = (first, second) if first_metered else (second, first)
    ratios.append((metered / bare - 1) * 100)
close()
print(json.dumps({"added_percent": statistics.median(ratios)}))
