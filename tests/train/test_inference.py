# SPDX-License-Identifier: Apache-2.0
"""Passes over held-out data: their windows, their samples, and no step of any optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from joulelab.train.inference import run_inference
from tests.train.train_parts import Asked, FakeMeter, Toy, job

if TYPE_CHECKING:
    import torch


def test_passes_are_counted_and_nothing_is_trained() -> None:
    class Untrained(Asked):
        def optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
            raise AssertionError

    meter = FakeMeter()
    lines: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    asked = job(Untrained, epochs=3, task="inference")
    repeat = run_inference(asked, meter=meter, on_epoch=lines.append, on_progress=shown.append)
    assert meter.events == ["repeat", "  load", *["  epoch", "    inference"] * 3]
    assert (repeat.task, repeat.samples, repeat.epochs, repeat.valid) == ("inference", 120, 3, True)
    assert set(repeat.phases) == {"load", "inference"}
    assert repeat.phases["inference"].energy_j == 6.0
    assert [line["samples"] for line in lines] == [40, 80, 120]
    assert [step["phase"] for step in shown] == ["load", *["inference"] * 3, "end"]


def test_a_workload_that_cannot_says_so() -> None:
    with pytest.raises(TypeError, match=r"Toy does not define infer\(\)"):
        run_inference(
            job(Toy, task="inference"), meter=FakeMeter(), on_epoch=lambda x: None, on_progress=lambda x: None
        )
