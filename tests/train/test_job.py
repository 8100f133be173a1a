# SPDX-License-Identifier: Apache-2.0
"""Windows by phase, their sums, and the network in the shape that the knobs ask for."""

from __future__ import annotations

import torch
from torch import nn

from joulelab.records.measurement import Measurement
from joulelab.train.fp8 import Fp8Linear
from joulelab.train.job import Phases, add_up, shaped, shown, told
from joulelab.train.precision import precision
from tests.train.train_parts import FakeMeter

CPU = torch.device("cpu")


def test_a_sum_over_a_lost_sensor_is_no_number() -> None:
    counted = Measurement(time_s=1, energy_j=5, energy_error_j=1, source="counter")
    guessed = Measurement(time_s=2, energy_j=9, energy_error_j=4, source="estimated")
    total = add_up([counted, counted, guessed])
    assert (total.time_s, total.energy_j) == (4, None)
    assert total.flags
    assert add_up([counted, counted]).energy_j == 10


def test_phases_keep_their_order_and_add_up() -> None:
    phases = Phases(FakeMeter())
    for name in ("load", "train", "evaluate", "train", "evaluate"):
        with phases(name):
            pass
    assert {name: sum_.energy_j for name, sum_ in phases.sums().items()} == {
        "load": 2.0,
        "train": 4.0,
        "evaluate": 4.0,
    }


def test_the_network_keeps_its_parameters_in_every_shape() -> None:
    convolution = nn.Conv2d(3, 16, 3)
    dense = nn.Linear(16, 32), nn.Linear(32, 10)
    model = nn.Sequential(convolution, nn.Flatten(), *dense)
    held = list(model.parameters())
    given = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    fast = shaped(model, knobs={"memory_format": "channels_last"}, precision=precision("fp8", device=CPU))
    assert fast is model
    assert all(a is b for a, b in zip(model.parameters(), held, strict=True))
    assert all(torch.equal(tensor, given[name]) for name, tensor in model.state_dict().items())
    assert convolution.weight.is_contiguous(memory_format=torch.channels_last)
    assert [type(layer) for layer in dense] == [Fp8Linear, nn.Linear], "ten outputs are no multiple of 16"


def test_a_line_of_progress_prefers_held_out_figures() -> None:
    assert shown({"loss": 1.0, "val_loss": 2.0, "accuracy": float("nan")}) == {"loss": 2.0}


def test_joules_are_told_with_what_they_come_from() -> None:
    counted = Measurement(time_s=1, energy_j=5, energy_error_j=1, source="counter")
    assert told(counted) == {"energy_j": 5, "source": "counter"}
    fake = Measurement(time_s=1, energy_j=5, energy_error_j=1, source="counter", flags=("simulated",))
    assert told(fake)["source"] == "counter, simulated"
