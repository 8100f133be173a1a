# SPDX-License-Identifier: Apache-2.0
"""Switches for exact repetition are set, and what was found is there again."""

from __future__ import annotations

import contextlib
import os

import pytest
import torch

from joulelab.knobs.deterministic import WORKSPACE, Deterministic


def found() -> tuple[object, ...]:
    cudnn = torch.backends.cudnn
    exact = torch.are_deterministic_algorithms_enabled()
    return cudnn.benchmark, cudnn.deterministic, exact, os.environ.get(WORKSPACE)


@pytest.mark.parametrize("value", [True, False])
def test_sets_and_puts_back_even_after_a_failure(value: bool) -> None:  # noqa: FBT001
    before = found()
    with contextlib.suppress(KeyError), Deterministic().applied(value):
        assert found() == (not value, value, value, ":4096:8" if value else None)
        raise KeyError
    assert found() == before


def test_a_workspace_that_the_user_chose_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKSPACE, ":16:8")
    with Deterministic().applied(True):
        assert os.environ[WORKSPACE] == ":16:8"
    assert os.environ[WORKSPACE] == ":16:8"
