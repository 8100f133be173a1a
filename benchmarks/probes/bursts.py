# SPDX-License-Identifier: Apache-2.0
"""Burn the GPU for so many seconds, rest for so many, until told to stop.

Phases are kept on the clock, not added up.
"""

from __future__ import annotations

import sys
import time

import torch

on_s, off_s = float(sys.argv[1]), float(sys.argv[2])
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
b = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
(a @ b).sum().item()
start = time.monotonic()
turn = 0
while True:
    stop = start + turn * (on_s + off_s) + on_s
    while time.monotonic() < stop:
        for _ in range(2):
            torch.mm(a, b)
        torch.cuda.synchronize()
    turn += 1
    time.sleep(max(0.0, start + turn * (on_s + off_s) - time.monotonic()))
