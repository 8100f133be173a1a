# SPDX-License-Identifier: Apache-2.0
"""Microseconds for one window around nothing."""

from __future__ import annotations

import json
import statistics
import sys
import time

from tools import pair

begin, end, close = pair(sys.argv[1])
for _ in range(3):  # first calls load and allocate
    begin()
    end()
# A peer that takes milliseconds a window is asked less often, so that a round stays short.
start = time.perf_counter()
begin()
end()
count = int(min(5000, max(20, 2.0 / max(time.perf_counter() - start, 1e-6))))
times = []
for _ in range(count):
    start = time.perf_counter()
    begin()
    end()
    times.append((time.perf_counter() - start) * 1e6)
close()
print(json.dumps({"median_us": statistics.median(times), "mean_us": statistics.fmean(times)}))
