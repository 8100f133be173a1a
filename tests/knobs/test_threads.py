# SPDX-License-Identifier: Apache-2.0
"""The number of threads is set, and put back."""

from __future__ import annotations

import contextlib

import pytest
import torch

from joulelab.errors import InputError
from joulelab.knobs.threads import Threads


def test_sets_and_puts_back_even_after_a_failure() -> None:
    before = torch.get_num_threads()
    with contextlib.suppress(KeyError), Threads().applied(before + 1):
        assert torch.get_num_threads() == before + 1
        raise KeyError
    assert torch.get_num_threads() == before


def test_nought_leaves_it_alone() -> None:
    before = torch.get_num_threads()
    with Threads().applied(0):
        assert torch.get_num_threads() == before


def test_refuses_less_than_nothing() -> None:
    with pytest.raises(InputError, match="threads = -1 is not legal"):
        Threads().check(-1)
