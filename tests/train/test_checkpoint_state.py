# SPDX-License-Identifier: Apache-2.0
"""Copies of a state: what they hold, and that their memory is used again."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch

from joulelab.train import checkpoint_state
from joulelab.train.checkpoint_state import Copies


def test_a_copy_does_not_change_with_what_it_was_taken_of() -> None:
    weight = torch.ones(3, requires_grad=True)
    copied = Copies().take(OrderedDict(a=weight, b=[(1, "two"), {0: torch.zeros(2)}], c=None))
    with torch.no_grad():
        weight += 1
    assert copied["a"].tolist() == [1.0, 1.0, 1.0]
    assert not copied["a"].requires_grad
    assert copied["b"][0] == [1, "two"]
    assert copied["b"][1][0].tolist() == [0.0, 0.0]
    assert type(copied) is dict
    assert copied["c"] is None


def test_memory_is_used_again_where_the_shape_is_the_same() -> None:
    copies = Copies()
    first, grown = (copies.take({"a": torch.full((2,), 1.0), "b": torch.zeros(n)}) for n in (1, 2))
    again = copies.take({"a": torch.full((2,), 5.0), "b": torch.zeros(2)})
    assert again["a"].data_ptr() == first["a"].data_ptr()
    assert again["b"].data_ptr() == grown["b"].data_ptr() != first["b"].data_ptr()
    assert again["a"].tolist() == [5.0, 5.0]


def test_the_order_in_memory_stays() -> None:
    pixels = torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last)
    assert Copies().take([pixels])[0].is_contiguous(memory_format=torch.channels_last)


def test_what_no_safe_loader_would_read_is_refused_when_it_is_saved() -> None:
    with pytest.raises(
        TypeError, match=r"/'schedule'/0 is of object: a state holds tensors, numbers and text"
    ):
        Copies().take({"schedule": [object()]})


def test_random_numbers_go_on_where_they_were() -> None:
    state = {"random": torch.get_rng_state(), "random_cuda": []}
    wanted = torch.rand(4).tolist()
    checkpoint_state.put_back_random(state)
    assert torch.rand(4).tolist() == wanted
