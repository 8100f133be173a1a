# SPDX-License-Identifier: Apache-2.0
"""Knobs of checkpoints: what they accept, and that every training listens to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from joulelab.errors import InputError
from joulelab.knobs.checkpoint import CheckpointKeep, CheckpointMinutes, CheckpointSteps
from joulelab.workloads import RECIPES

if TYPE_CHECKING:
    from joulelab.knobs.knob import Knob

OFF = {"checkpoint_steps": 0, "checkpoint_minutes": 0.0, "checkpoint_keep": 2}


@pytest.mark.parametrize(
    ("knob", "value"),
    [(CheckpointSteps, 0), (CheckpointMinutes, 0.5), (CheckpointMinutes, 0), (CheckpointKeep, 1)],
)
def test_accepts(knob: type[Knob], value: object) -> None:
    assert knob().check(value) == value


@pytest.mark.parametrize(
    ("knob", "value"),
    [(CheckpointSteps, -1), (CheckpointSteps, 1.5), (CheckpointMinutes, -1), (CheckpointKeep, 0)],
)
def test_refuses(knob: type[Knob], value: object) -> None:
    with pytest.raises(InputError, match=f"{knob.parameter.name} = {value} is not legal"):
        knob().check(value)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_listens_and_asks_for_none(name: str) -> None:
    assert {knob: RECIPES[name].listens()[knob] for knob in OFF} == OFF
