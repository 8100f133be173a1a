# SPDX-License-Identifier: Apache-2.0
"""P1B3 is the benchmark's regression with the benchmark's batches, and learns on a narrow stand-in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from joulelab.errors import InputError
from joulelab.workloads.p1b3 import P1B3, Cycle, full_widths, network
from tests.workloads.candle_parts import parameters, setting, train

if TYPE_CHECKING:
    from pathlib import Path

CPU = torch.device("cpu")


def workload(root: Path, **more: Any) -> P1B3:
    return P1B3(setting(root, **{"scale": 0.02, "batch_size": 100, **more}))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("p1b3")
    workload(folder).prepare()
    return folder


@pytest.mark.parametrize(("columns_drawn", "count"), [(0, 30_088_701), (500, 1_557_701)])
def test_full_width_has_the_published_number_of_parameters(columns_drawn: int, count: int) -> None:
    with torch.device("meta"):
        net = network(inputs=full_widths(columns_drawn)[0], columns_drawn=columns_drawn)
    assert parameters(net) == count


def test_layers_of_the_full_network() -> None:
    with torch.device("meta"):
        net = network(inputs=29_532)
    assert [parameters(layer) for layer in net.children() if parameters(layer)] == [
        29_533_000, 500_500, 50_100, 5_050, 51,
    ]  # fmt: skip
    torch.manual_seed(0)
    first, last = network(inputs=2_000)[0], network(inputs=2_000)[-1]
    assert isinstance(first, torch.nn.Linear)
    assert isinstance(last, torch.nn.Linear)
    assert float(first.weight.detach().std()) == pytest.approx(0.05, rel=0.01)
    assert float(last.weight.detach().abs().max()) <= (6 / 51) ** 0.5


def test_a_narrow_network_begins_with_outputs_as_large() -> None:
    torch.manual_seed(0)
    sizes = {}
    for inputs, scale in ((full_widths(500)[0], 1.0), (201, 0.2)):
        net = network(inputs=inputs, scale=scale, columns_drawn=500).eval()
        sizes[scale] = float(net[:4](torch.randn(500, inputs)).detach().square().mean())
    assert sizes[0.2] == pytest.approx(sizes[1.0], rel=0.2)


def test_a_cycle_goes_on_where_it_stopped() -> None:
    cycle, rows = Cycle(10, 5), torch.arange(20)
    taken = [cycle.take(3, CPU) for _ in range(4)]
    assert [rows[t].tolist() for t in taken] == [[10, 11, 12], [13, 14, 10], [11, 12, 13], [14, 10, 11]]
    assert isinstance(taken[0], slice), "rows in one piece are looked up without a list of them"
    assert rows[Cycle(2, 3).take(8, CPU)].tolist() == [2, 3, 4, 2, 3, 4, 2, 3]


def test_an_epoch_is_whole_batches_and_the_next_begins_behind_it(data: Path) -> None:
    loaded = workload(data)
    loaded.load()
    whole = loaded.train_rows // 100
    generator = torch.Generator()
    batches = list(loaded.batches(1, generator))
    assert len(batches) == whole
    assert {len(y) for _, y in batches} == {100}
    x, y = next(iter(loaded.batches(2, generator)))
    drift = loaded.train_rows - 100 * whole
    assert torch.equal(y[:drift], loaded.growth[100 * whole : loaded.train_rows])
    assert torch.equal(y[drift:], loaded.growth[: 100 - drift])
    row = 100 * whole
    expected = [loaded.dose[row : row + 1], loaded.cells[loaded.cell[row]], loaded.drugs[loaded.drug[row]]]
    assert torch.equal(x[0], torch.cat(expected))


def test_it_learns_to_tell_growth_from_death(data: Path) -> None:
    # Four times the recipe's step: as far in three epochs of 180 steps as it would come in twelve.
    history = train(workload(data, epochs=3, learning_rate=0.004, feature_subsample=500))
    first, last = history[0], history[-1]
    assert first["loss"] > last["loss"]
    assert 0.57 < last["val_accuracy"] < 0.70  # the study of 2019 reached .66
    assert 0.25 < last["val_loss"] < 0.345
    assert 0.0 < last["test_accuracy"] < 1.0
    assert last["test_loss"] < 0.40


def test_validation_is_gone_through_twice_as_in_the_benchmark(data: Path) -> None:
    loaded = workload(data, scale=0.02)
    loaded.load()
    seen: list[int] = []
    model = loaded.model().eval()
    model.register_forward_hook(lambda module, x, y: seen.append(len(y)))
    loaded.evaluate(model)
    val = loaded.val_cycles[0].count // 100
    assert len(seen) == 2 * val + loaded.test_cycle.count // 100
    modern = workload(data, recipe="modern")
    modern.load()
    seen.clear()
    model = modern.model().eval()
    model.register_forward_hook(lambda module, x, y: seen.append(len(y)))
    modern.evaluate(model)
    assert len(seen) == val + loaded.test_cycle.count // 100


def test_the_same_seed_gives_the_same_losses(data: Path) -> None:
    first, again, other = (train(workload(data), seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_a_batch_larger_than_the_validation_is_refused(data: Path) -> None:
    with pytest.raises(InputError, match="batch_size = 5000 is more than the"):
        workload(data, batch_size=5000).load()


def test_a_missing_file_is_named_with_its_layout_and_its_source(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        workload(tmp_path, given=tmp_path).load()
    for words in ("P1B3_test_drugs.txt", "tab separated", "3,809", "CANDLE", "joulelab data generate p1b3"):
        assert words in str(error.value)


def test_pandas_gives_the_same_tables(data: Path) -> None:
    pytest.importorskip("pandas", reason="the extra 'loaders' is not installed")
    ours, theirs = workload(data), workload(data, loader="pandas")
    ours.load()
    theirs.load()
    assert torch.equal(ours.growth, theirs.growth)
    assert torch.equal(ours.cell, theirs.cell)
    assert torch.equal(ours.drug, theirs.drug)
    torch.testing.assert_close(ours.drugs, theirs.drugs)
