# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's own binding, loaded late, its errors put in words."""

from __future__ import annotations

import os
from typing import Any

from joulelab.errors import SensorError
from joulelab.hardware.device import Problem

LIBRARY = "JOULELAB_NVML_LIBRARY"  # path of another libnvidia-ml, for tests and odd installations

NO_PERMISSION = 4
NOT_SUPPORTED = 3
NOT_FOUND = 6
FUNCTION_NOT_FOUND = 13
POWER_AVERAGE = 185
SCOPE_BOARD, SCOPE_MODULE, SCOPE_MEMORY = 0, 1, 2
# NVML says which member of the union it filled.
UNION = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

CURES = {
    4: "ask for read access to /dev/nvidiactl and /dev/nvidia*; in a container pass the GPUs in (--gpus all)",
    9: "load the driver (sudo modprobe nvidia) and look at `nvidia-smi`",
    12: "install NVIDIA's driver; in a container pass the GPUs in (--gpus all); no such GPU: all is well",
    13: "this driver is too old for the call: update it",
    15: "look at `dmesg` for Xid messages; the card needs a reset or a reboot",
    16: "reset the card (sudo nvidia-smi --gpu-reset) or reboot",
    18: "driver and library are of different versions, as after an update: reboot, or reload the driver",
}


def problem_of(error: BaseException) -> Problem:
    """What went wrong on the way to NVML, and how to mend it."""
    code = getattr(error, "value", None)
    if isinstance(error, ImportError):
        return Problem(
            vendor="nvidia",
            what=f"NVIDIA's Python binding cannot be imported: {error}",
            cure="pip install nvidia-ml-py",
        )
    if isinstance(error, SensorError):
        return Problem(vendor="nvidia", what=error.message, cure=error.cure)
    cure = CURES.get(code, "look at `nvidia-smi`") if isinstance(code, int) else "look at `nvidia-smi`"
    return Problem(vendor="nvidia", what=f"NVML: {error}", cure=cure)


class Nvml:
    """One opened NVML. Every device holds its own: NVML counts them."""

    def __init__(self) -> None:
        import pynvml

        if not hasattr(pynvml, "_nvmlGetFunctionPointer"):
            raise SensorError(
                f"the module 'pynvml' at {getattr(pynvml, '__file__', '?')} is not NVIDIA's nvidia-ml-py",
                cure="pip uninstall pynvml, then pip install --force-reinstall nvidia-ml-py",
            )
        self.binding: Any = pynvml
        path = os.environ.get(LIBRARY)
        if path and pynvml.nvmlLib is None:
            import ctypes

            try:
                pynvml.nvmlLib = ctypes.CDLL(path)
            except OSError as error:
                what = f"{LIBRARY}={path} cannot be loaded: {error}"
                raise SensorError(what, cure=f"unset {LIBRARY}") from error
        pynvml.nvmlInit()
        self._open = True

    def call(self, name: str, *arguments: Any) -> Any:
        """`name(*arguments)`; NVML's errors become SensorErrors with NVML's number in `code`."""
        try:
            return getattr(self.binding, name)(*arguments)
        except self.binding.NVMLError as error:
            raise NvmlError(name, error) from error

    def optional(self, name: str, *arguments: Any) -> Any:
        """`name(*arguments)`, or None where this chip, driver or user does not have it."""
        try:
            return self.call(name, *arguments)
        except NvmlError as error:
            if error.code in {NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, NOT_FOUND, 2}:
                return None
            raise

    def field(self, handle: Any, field: int, *, scope: int = SCOPE_BOARD) -> float | None:
        """One field as a number; None where it is not there."""
        values = self.optional("nvmlDeviceGetFieldValues", handle, [(field, scope)])
        if values is None or values[0].nvmlReturn != 0:
            return None
        return float(getattr(values[0].value, UNION[values[0].valueType]))

    def close(self) -> None:
        if self._open:
            self._open = False
            self.call("nvmlShutdown")


class NvmlError(SensorError):
    """A refused NVML call."""

    def __init__(self, name: str, error: Any) -> None:
        self.code = int(error.value)
        super().__init__(f"{name}: {error}", cure=CURES.get(self.code, "look at `nvidia-smi` and `dmesg`"))
