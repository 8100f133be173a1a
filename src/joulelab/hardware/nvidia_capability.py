# SPDX-License-Identifier: Apache-2.0
"""What generation the NVIDIA board is that a process would use, as the driver says it."""

from __future__ import annotations

import os

from joulelab.errors import SensorError
from joulelab.hardware.nvidia import board
from joulelab.hardware.nvidia_visible import select
from joulelab.hardware.nvml import Nvml


def capability() -> tuple[str, tuple[int, int] | None]:
    """Name and compute capability of the least capable board; no name where there is none to be used.

    The capability is None where the driver does not tell.
    """
    try:
        nvml = Nvml()
    except Exception:  # noqa: BLE001  no driver, no binding: no board
        return "", None
    try:
        handles = [nvml.call("nvmlDeviceGetHandleByIndex", i) for i in range(nvml.call("nvmlDeviceGetCount"))]
        boards = [board(nvml, i, handle) for i, handle in enumerate(handles)]
        choices, _ = select(os.environ.get("CUDA_VISIBLE_DEVICES"), boards)
        found = []
        for handle in (handles[choice.board.index] for choice in choices):
            version = nvml.optional("nvmlDeviceGetCudaComputeCapability", handle)
            found.append((tuple(version) if version else None, str(nvml.call("nvmlDeviceGetName", handle))))
    except SensorError:
        return "", None
    finally:
        nvml.close()
    if not found:
        return "", None
    least, name = min(found, key=lambda pair: pair[0] or (99, 0))
    return name, (int(least[0]), int(least[1])) if least else None
