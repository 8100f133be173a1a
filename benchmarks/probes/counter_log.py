# SPDX-License-Identifier: Apache-2.0
"""Read the energy counter without pause.

Log each move: last read before it, first read after it, millijoules.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

import pynvml

if "JOULELAB_NVML_LIBRARY" in os.environ:
    pynvml.nvmlLib = ctypes.CDLL(os.environ["JOULELAB_NVML_LIBRARY"])
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
with Path(sys.argv[1]).open("w", buffering=1) as log:
    last_ns, last = time.monotonic_ns(), pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    while True:
        value = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        now_ns = time.monotonic_ns()
        if value != last:
            log.write(f"{last_ns} {now_ns} {value}\n")
        last_ns, last = now_ns, value
        time.sleep(0.001)
