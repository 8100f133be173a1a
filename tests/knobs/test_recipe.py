# SPDX-License-Identifier: Apache-2.0
"""Knobs that a workload reads itself: what they accept."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

from joulelab.data import LOADERS
from joulelab.errors import InputError
from joulelab.knobs.recipe import BatchSize, Epochs, LearningRate, Loader

if TYPE_CHECKING:
    from joulelab.knobs.knob import Knob


@pytest.mark.parametrize(
    ("knob", "value"),
    [(BatchSize, 1), (Epochs, 384), (LearningRate, 0.001), (LearningRate, 1), (Loader, "ours")],
)
def test_accepts(knob: type[Knob], value: object) -> None:
    assert knob().check(value) == value


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        (BatchSize, 0),
        (BatchSize, 1.5),
        (BatchSize, True),
        (Epochs, -1),
        (LearningRate, 0.0),
        (LearningRate, float("nan")),
        (LearningRate, float("inf")),
        (Loader, "pandsa"),
        (Loader, 1),
    ],
)
def test_refuses_and_names_the_legal_values(knob: type[Knob], value: object) -> None:
    with pytest.raises(InputError, match="legal: ") as caught:
        knob().check(value, where="study.toml:3")
    assert str(caught.value).startswith(f"study.toml:3: {knob.parameter.name} = ")


def test_a_loader_may_be_somebody_elses() -> None:
    assert Loader().check("email.parser:read") == "email.parser:read"
    for missing in ("email.nothing:read", "nothing.at.all:read", ":read"):
        with pytest.raises(InputError, match=f"study.toml:3: loader '{missing}': there is no module"):
            Loader().check(missing, where="study.toml:3")
    assert Loader.parameter.choices == tuple(LOADERS)


def test_a_loader_that_is_not_installed_is_refused_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install 'joulelab[loaders]'" in Loader().available("pandas")
    assert Loader().available("ours") == ""
