# SPDX-License-Identifier: Apache-2.0
"""Whether the network is compiled before it is trained. The loop does it; here is what may be asked for."""

from __future__ import annotations

import importlib.util
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from joulelab.knobs.knob import Knob
from joulelab.records.parameter import Parameter, Scalar

if TYPE_CHECKING:
    from collections.abc import Iterator

# All networks of a process share one piece of code, and torch gives up on a piece, with a line in the log,
# after eight variants of it: sizes of picture and batch, training and evaluation, formats. These are more
# than anybody asks for, and few enough that a network which is compiled anew for each batch is found out.
VARIANTS, VARIANTS_IN_ALL = 128, 1024
# torch 2.6 has the second name of each, later ones the first.
LIMIT = ("recompile_limit", "cache_size_limit")
LIMIT_IN_ALL = ("accumulated_recompile_limit", "accumulated_cache_size_limit")
FAIL = ("fail_on_recompile_limit_hit", "fail_on_cache_limit_hit")
SWITCHED_OFF = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")


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
        for name in SWITCHED_OFF:
            if os.environ.get(name) == "1":
                return f"compile '{value}' is switched off by {name}=1: unset it"
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

    @contextmanager
    def applied(self, value: Scalar) -> Iterator[None]:
        """Inside, what cannot be compiled is an error: else the figures would be those of another setting."""
        if value == "off":
            yield
            return
        from torch._dynamo import config

        wanted = settings(config)
        before = {name: getattr(config, name) for name in wanted}
        try:
            _set(config, wanted)
            yield
        finally:
            _set(config, before)


def settings(config: Any) -> dict[str, Any]:
    """What the compiler is told, in the names that this torch has for it."""
    wanted: dict[str, Any] = {"suppress_errors": False}
    for names, least in ((LIMIT, VARIANTS), (LIMIT_IN_ALL, VARIANTS_IN_ALL)):
        if name := _known(config, names):
            wanted[name] = max(least, getattr(config, name))
    if name := _known(config, FAIL):
        wanted[name] = True
    return wanted


def _known(config: Any, names: tuple[str, ...]) -> str:
    return next((name for name in names if hasattr(config, name)), "")


def _set(config: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(config, name, value)
