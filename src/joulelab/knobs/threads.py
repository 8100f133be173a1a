# SPDX-License-Identifier: Apache-2.0
"""How many CPU threads a framework's operation may use."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from joulelab.knobs.knob import Knob
from joulelab.records.parameter import Parameter, Scalar

if TYPE_CHECKING:
    from collections.abc import Iterator


class Threads(Knob):
    parameter: ClassVar[Parameter] = Parameter(
        name="threads",
        kind="int",
        minimum=0,
        maximum=4096,
        help="CPU threads; 0 leaves the framework's own choice",
    )

    @contextmanager
    def applied(self, value: Scalar) -> Iterator[None]:
        if not value:
            yield
            return
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(int(value))
        try:
            yield
        finally:
            torch.set_num_threads(before)
