# SPDX-License-Identifier: Apache-2.0
"""The neutral answers of the base class."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from joulelab.workloads import RECIPES, WORKLOADS
from joulelab.workloads.workload import Setting, Workload


def test_every_workload_has_its_recipe() -> None:
    assert set(RECIPES) == set(WORKLOADS)


def test_what_a_subclass_need_not_say() -> None:
    bare = Workload(Setting(parameters={}, knobs={}, data=Path()))
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters())
    bare.prepare()
    bare.load()
    assert bare.evaluate(model) == {}
    bare.on_step_end(model, optimizer, step=1)
    assert bare.on_epoch_end({}, optimizer) is False


@pytest.mark.parametrize("what", ["model", "optimizer", "batches", "loss"])
def test_what_it_must_say_is_asked_for_by_name(what: str) -> None:
    class Half(Workload):
        pass

    half = Half(Setting(parameters={}, knobs={}, data=Path()))
    arguments = {"model": (), "optimizer": (None,), "batches": (1, None), "loss": (None, None)}[what]
    with pytest.raises(TypeError, match=rf"Half does not define {what}\(\)"):
        getattr(half, what)(*arguments)
