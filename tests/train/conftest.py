# SPDX-License-Identifier: Apache-2.0
"""What torch does once in a process, done before the first test is watched."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def _torch_is_loaded_in_full() -> None:
    # The first optimizer of a process loads torch's compiler, which sets a variable of its own.
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])
