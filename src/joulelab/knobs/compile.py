# SPDX-License-Identifier: Apache-2.0
"""Whether the network is compiled before it is trained. The loop does it; here is what may be asked for."""

from __future__ import annotations

import importlib.util
import os
import shutil
from typing import ClassVar

from joulelab.knobs.knob import Knob
from joulelab.records.parameter import Parameter, Scalar


class Compile(Knob):
    """Compiling costs seconds to minutes in the first repeat of a process: give a study `warmup = 1`."""

    parameter: ClassVar[Parameter] = Parameter(
        name="compile",
        kind="str",
        choices=("off", "on", "reduce-overhead", "max-autotune"),
        help="torch.compile for the network; the last two name its modes",
    )

    def available(self, value: Scalar) -> str:
        if value == "off":
            return ""
        import torch

        if not torch.cuda.is_available():
            compiler = os.environ.get("CXX", "g++")
            if shutil.which(compiler) is None and shutil.which("clang++") is None:
                return f"compile '{value}' needs a C++ compiler, and '{compiler}' is not there: install g++"
            return ""
        if importlib.util.find_spec("triton") is None:
            return f"compile '{value}' needs triton, which is not installed: pip install triton"
        if not torch.version.hip and torch.cuda.get_device_capability() < (7, 0):
            name = torch.cuda.get_device_name()
            return f"compile '{value}' needs a GPU of compute capability 7.0 or more; this is {name}"
        return ""
