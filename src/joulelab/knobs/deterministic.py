# SPDX-License-Identifier: Apache-2.0
"""The same sums in the same order every time, at the price of slower kernels."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from joulelab.knobs.knob import Knob
from joulelab.records.parameter import Parameter, Scalar

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


class Deterministic(Knob):
    """False lets cuDNN try its algorithms and take the fastest; True allows only those that repeat exactly.

    An operation that has no exact form ends the trial with torch's own words, which name it.
    """

    parameter: ClassVar[Parameter] = Parameter(
        name="deterministic", kind="bool", help="only algorithms that give the same bits every time"
    )

    @contextmanager
    def applied(self, value: Scalar) -> Iterator[None]:
        import torch

        cudnn = torch.backends.cudnn
        before = cudnn.benchmark, cudnn.deterministic, torch.are_deterministic_algorithms_enabled()
        workspace = os.environ.get(WORKSPACE)
        try:
            cudnn.benchmark, cudnn.deterministic = not value, bool(value)
            if value and workspace is None:
                # Read by cuBLAS when it is first used: which is after the knobs have been put on.
                os.environ[WORKSPACE] = ":4096:8"
            torch.use_deterministic_algorithms(bool(value))
            yield
        finally:
            cudnn.benchmark, cudnn.deterministic = before[:2]
            torch.use_deterministic_algorithms(before[2])
            if workspace is None:
                os.environ.pop(WORKSPACE, None)
