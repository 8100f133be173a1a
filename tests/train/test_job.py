# SPDX-License-Identifier: Apache-2.0
"""Windows by phase, their sums, and the network in the shape that the knobs ask for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from joulelab.errors import TrialError
from joulelab.knobs import compile as compile_knob
from joulelab.knobs.compile import Compile
from joulelab.records.measurement import Measurement
from joulelab.train import job
from joulelab.train.fp8 import Fp8Linear
from joulelab.train.job import Phases, add_up, shaped, shown, told
from joulelab.train.precision import precision
from joulelab.workloads import nt3
from joulelab.workloads.resnet_network import ResNet
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


NETWORKS: dict[str, tuple[dict[str, Any], Callable[[], nn.Module], tuple[int, ...]]] = {
    "sequential": ({}, lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), (3, 4)),
    "nt3": ({}, lambda: nt3.network(genes=100, filters=8), (2, 1, 100)),
    "resnet": ({}, lambda: ResNet(18, classes=3, stem="cifar", width=4), (2, 3, 16, 16)),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_a_compiled_network_is_one_graph(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that the compiler passes over runs as well, and every figure would be another setting's."""
    graphs: list[int] = []

    def counted(graph: Any, inputs: Any) -> Any:
        graphs.append(sum(node.op in {"call_function", "call_module"} for node in graph.graph.nodes))
        return graph.forward

    monkeypatch.setitem(job.COMPILE, "on", {"backend": counted})
    _, make, shape = NETWORKS[name]
    torch.manual_seed(0)
    plain = make().eval()
    model = shaped(copy.deepcopy(plain), knobs={"compile": "on"}, precision=precision("fp32", device=CPU))
    x = torch.randn(shape)
    torch.testing.assert_close(model(x), plain(x))
    assert len(graphs) == 1
    assert graphs[0] >= sum(not list(module.children()) for module in plain.modules()) - 1
    assert list(model.state_dict()) == list(plain.state_dict())
    # A copy, such as an average of the weights, computes with its own.
    other = copy.deepcopy(model)
    torch.nn.init.zeros_(next(other.parameters()))
    assert not torch.allclose(other(x), plain(x))
    torch._dynamo.reset()


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is called instead of compiled code: it notes that it was made, and that it is used."""
    seen: list[str] = []

    def noted(graph: Any, inputs: Any) -> Any:
        seen.append("made")

        def run(*given: Any) -> Any:
            seen.append("used")
            return graph.forward(*given)

        return run

    monkeypatch.setitem(job.COMPILE, "on", {"backend": noted})
    torch._dynamo.reset()
    yield seen
    torch._dynamo.reset()


def compiled(width: int) -> nn.Module:
    torch.manual_seed(width)
    model = nn.Sequential(nn.Linear(width, 3), nn.ReLU())
    return shaped(model, knobs={"compile": "on"}, precision=precision("fp32", device=CPU))


def test_each_of_many_networks_in_a_process_is_compiled(graphs: list[str]) -> None:
    with Compile().applied("on"):
        for number, width in enumerate(range(1, 21), start=1):
            x = torch.ones(2, width)
            model = compiled(width)
            wanted = model.forward(x)
            torch.testing.assert_close(model(x), wanted)
            assert graphs == ["made", "used"] * number
        # A network like one before it needs nothing new: that is why a warm-up helps the repeats.
        compiled(20)(torch.ones(2, 20))
        assert graphs == ["made", "used"] * 20 + ["used"]


def test_a_network_that_cannot_be_compiled_any_more_ends_the_trial_in_words(
    graphs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_knob, "VARIANTS", 3)
    with torch._dynamo.config.patch(recompile_limit=2), Compile().applied("on"):
        model = compiled(4)
        for batch in (1, 2, 3):
            model(torch.ones(batch, 4))
        with pytest.raises(TrialError, match="would go on uncompiled") as said:
            model(torch.ones(4, 4))
        assert "cure: fewer shapes" in str(said.value)
        model(torch.ones(2, 4))
    assert graphs == ["made", "used"] * 3 + ["used"], "and nothing ran beside it"


def test_a_line_of_progress_prefers_held_out_figures() -> None:
    assert shown({"loss": 1.0, "val_loss": 2.0, "accuracy": float("nan")}) == {"loss": 2.0}


def test_joules_are_told_with_what_they_come_from() -> None:
    counted = Measurement(time_s=1, energy_j=5, energy_error_j=1, source="counter")
    assert told(counted) == {"energy_j": 5, "source": "counter"}
    fake = Measurement(time_s=1, energy_j=5, energy_error_j=1, source="counter", flags=("simulated",))
    assert told(fake)["source"] == "counter, simulated"
