# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the training: which formats matrix products and convolutions are done in."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from joulelab.hardware import nvidia_capability
from joulelab.knobs.knob import Knob
from joulelab.records.parameter import Parameter, Scalar

if TYPE_CHECKING:
    from collections.abc import Iterator

# The least compute capability of an NVIDIA GPU that has the format in its hardware.
LEAST = {"tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9)}
CURE = "leave this precision out, or run where the device has it"
ON_GPU_ONLY = ("tf32", "fp8")


class PrecisionKnob(Knob):
    """The process-wide part: whether fp32 products may be rounded to TF32. The rest is `train.precision`."""

    parameter: ClassVar[Parameter] = Parameter(
        name="precision",
        kind="str",
        choices=("fp64", "fp32", "tf32", "bf16", "fp16", "fp8"),
        help="arithmetic of the training; bf16 and fp16 are mixed with fp32, fp8 (linear layers) with bf16",
    )

    def refused_here(self, value: Scalar) -> str:
        if value not in LEAST:
            return ""
        gpu, found = nvidia_capability.capability()
        if gpu and found is None:
            return ""  # its driver does not tell: the trial itself will know
        refused = lacking(str(value), gpu=gpu, capability=found)
        return refused and f"{refused}\n{CURE}"

    def available(self, value: Scalar) -> str:
        import torch

        if not torch.cuda.is_available():
            return lacking(str(value), gpu="", capability=None)
        name = torch.cuda.get_device_name()
        capability = None if torch.version.hip else torch.cuda.get_device_capability()
        refused = lacking(str(value), gpu=name, capability=capability)
        if not refused and value == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
            return _no_bf16(name)
        return refused

    @contextmanager
    def applied(self, value: Scalar) -> Iterator[None]:
        import torch

        # Both are set, always: torch's own defaults differ between the two, so "fp32" would convolve in TF32.
        matmul, convolution = torch.backends.cuda.matmul, torch.backends.cudnn
        before = matmul.allow_tf32, convolution.allow_tf32
        try:
            matmul.allow_tf32 = convolution.allow_tf32 = value == "tf32"
            yield
        finally:
            matmul.allow_tf32, convolution.allow_tf32 = before


def lacking(value: str, *, gpu: str, capability: tuple[int, int] | None) -> str:
    """Why a machine with this GPU (no name: none) cannot do `value`, in words; empty if it can.

    `capability` is None where the GPU is of another vendor.
    """
    if value in ON_GPU_ONLY:
        need = f"precision '{value}' needs an NVIDIA GPU"
        if not gpu:
            return f"{need}, and there is none to be used here"
        if capability is None or capability < LEAST[value]:
            return f"{need} of compute capability {'.'.join(map(str, LEAST[value]))} or more; this is {gpu}"
    if value == "bf16" and gpu and capability is not None and capability < LEAST["bf16"]:
        return _no_bf16(gpu)
    return ""


def _no_bf16(gpu: str) -> str:
    return f"precision 'bf16' is not in the hardware of {gpu}: 'fp16' is"
