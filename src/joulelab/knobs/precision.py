# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the training: which formats matrix products and convolutions are done in."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from joulelab.knobs.knob import Knob
from joulelab.records.parameter import Parameter, Scalar

if TYPE_CHECKING:
    from collections.abc import Iterator


class PrecisionKnob(Knob):
    """The process-wide part: whether fp32 products may be rounded to TF32. The rest is `train.precision`."""

    parameter: ClassVar[Parameter] = Parameter(
        name="precision",
        kind="str",
        choices=("fp64", "fp32", "tf32", "bf16", "fp16"),
        help="arithmetic of the training; bf16 and fp16 are mixed with fp32",
    )

    def available(self, value: Scalar) -> str:
        import torch

        if not torch.cuda.is_available():
            return "precision 'tf32' needs an NVIDIA GPU, and torch sees none here" if value == "tf32" else ""
        name = torch.cuda.get_device_name()
        if value == "tf32" and (torch.version.hip or torch.cuda.get_device_capability() < (8, 0)):
            return f"precision 'tf32' needs an NVIDIA GPU of compute capability 8.0 or more; this is {name}"
        if value == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
            return f"precision 'bf16' is not in the hardware of {name}: 'fp16' is"
        return ""

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
