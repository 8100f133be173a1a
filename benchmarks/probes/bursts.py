# SPDX-License-Identifier: Apache-2.0
"""Burn the GPU for so many seconds, rest for so many; each line of input ("0.023 0.077") is a new rhythm.

Says "ready" when CUDA is up and again with each rhythm that it has taken; ends with its input. Phases are
kept on the clock, not added up.
"""

from __future__ import annotations

import select
import sys
import time

import torch


def burst(stop_s: float) -> None:
    while time.monotonic() < stop_s:
        for _ in range(2):
            torch.mm(a, b, out=c)
        torch.cuda.synchronize()


a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
b = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
c = torch.empty_like(a)
burst(time.monotonic() + 2.0)
print("ready", flush=True)
while line := sys.stdin.readline():
    on_s, off_s = map(float, line.split())
    print("ready", flush=True)
    start, turn = time.monotonic(), 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        begin = start + turn * (on_s + off_s)
        burst(begin + on_s)
        turn += 1
        time.sleep(max(0.0, begin + on_s + off_s - time.monotonic()))
