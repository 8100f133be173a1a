# SPDX-License-Identifier: Apache-2.0
"""What torch does once in a process, done before the first test is watched; what several files ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session", autouse=True)
def _torch_is_loaded_in_full() -> None:
    # The first optimizer of a process loads torch's compiler, which sets a variable of its own.
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])


@pytest.fixture
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more of them sum in another order
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the pictures of one file's tests are drawn, once."""
    return tmp_path_factory.mktemp("drawn")
