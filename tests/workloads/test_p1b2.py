# SPDX-License-Identifier: Apache-2.0
"""P1B2 is the benchmark's classifier with the benchmark's quirks, and learns on a narrow stand-in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from joulelab.data import generate_p1b2
from joulelab.errors import InputError
from joulelab.workloads.p1b2 import P1B2, PENALTY, WIDTHS, Network, renormalised_cross_entropy
from tests.workloads.candle_parts import parameters, setting, train

if TYPE_CHECKING:
    from pathlib import Path


def workload(root: Path, **more: Any) -> P1B2:
    return P1B2(setting(root, **{"scale": 0.05, "batch_size": 60, **more}))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("p1b2")
    workload(folder).prepare()
    return folder


def test_full_width_has_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        net = Network(genes=generate_p1b2.GENES, kinds=10, widths=WIDTHS)
    assert [parameters(layer) for layer in net.hidden] == [28_881_920, 524_800, 131_328]
    assert parameters(net) == 29_540_618


def test_validation_is_one_kind_that_training_never_sees(data: Path) -> None:
    loaded = workload(data)
    loaded.load()
    assert (len(loaded.train_y), len(loaded.val_y), len(loaded.test_y)) == (2_700, 300, 1_000)
    assert set(loaded.val_y.tolist()) == {0}
    assert set(loaded.train_y.tolist()) == set(range(1, 10))
    assert set(loaded.test_y.tolist()) == set(range(10))


def test_modern_validates_on_a_tenth_of_every_kind(data: Path) -> None:
    loaded = workload(data, recipe="modern")
    loaded.load()
    assert loaded.val_y.bincount().tolist() == [30] * 10
    assert loaded.train_y.bincount().tolist() == [270] * 10


def test_the_loss_divides_the_sigmoids_by_their_sum() -> None:
    logits = torch.tensor([[0.0, 1.0, -2.0], [60.0, -60.0, 0.0]])
    first = torch.sigmoid(logits[0])
    loss = renormalised_cross_entropy(logits[:1], torch.tensor([1]))
    assert float(loss) == pytest.approx(-float((first[1] / first.sum()).log()))
    assert float(loss) != pytest.approx(
        float(torch.nn.functional.cross_entropy(logits[:1], torch.tensor([1])))
    )
    # Whatever is thought impossible costs no more than this.
    assert float(renormalised_cross_entropy(logits[1:], torch.tensor([1]))) == pytest.approx(16.118, abs=1e-3)


def test_the_penalties_have_the_size_they_have_in_the_benchmark(data: Path) -> None:
    loaded = workload(data)
    loaded.load()
    model = loaded.model()
    assert isinstance(model, Network)
    x, y = loaded.train_x[:60], loaded.train_y[:60]
    with torch.no_grad():
        loss = loaded.loss(model, (x, y)).loss
        logits, activity = model(x)
        kernels = sum(float(kernel.square().sum()) for kernel in model.kernels())
        twice = model(torch.cat([x, x]))[1]
    penalty = float(loss - renormalised_cross_entropy(logits, y))
    assert penalty == pytest.approx(PENALTY * (float(activity) + kernels), rel=1e-3)
    # Summed over the batch, not divided by it: twice the rows, twice the penalty.
    assert float(twice) == pytest.approx(2 * float(activity), rel=1e-5)


def test_at_full_width_the_activity_penalty_begins_at_a_quarter() -> None:
    torch.manual_seed(0)
    net = Network(genes=400, kinds=10, widths=WIDTHS)
    penalty = PENALTY * float(net(torch.zeros(60, 400))[1].detach())
    assert 0.2 < penalty < 0.35


def test_decay_acts_on_the_hidden_kernels_alone(data: Path) -> None:
    loaded = workload(data)
    loaded.load()
    model = loaded.model()
    optimizer = loaded.optimizer(model)
    decayed = [p.shape for group in optimizer.param_groups if group["weight_decay"] for p in group["params"]]
    assert isinstance(model, Network)
    assert decayed == [kernel.shape for kernel in model.kernels()]
    assert {group["alpha"] for group in optimizer.param_groups} == {0.9}
    assert {group["eps"] for group in optimizer.param_groups} == {1e-8}
    assert sum(p.numel() for group in optimizer.param_groups for p in group["params"]) == parameters(model)


def test_two_steps_are_those_of_the_formulas_written_out(data: Path) -> None:
    loaded = workload(data)
    loaded.load()
    model = loaded.model().double()
    optimizer = loaded.optimizer(model)
    assert isinstance(model, Network)
    layers = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear)]
    weights = [layer.weight.detach().numpy().T.copy() for layer in layers]
    biases = [layer.bias.detach().numpy().copy() for layer in layers]
    squares = [np.zeros_like(a) for a in (*weights, *biases)]
    for first in (0, 60):
        x, y = loaded.train_x[first : first + 60].double(), loaded.train_y[first : first + 60]
        optimizer.zero_grad()
        step = loaded.loss(model, (x, y))
        step.loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

        out = [x.numpy()]
        for weight, bias in zip(weights, biases, strict=True):
            out.append(1 / (1 + np.exp(-(out[-1] @ weight + bias))))
        given, mine = out[-1], (np.arange(60), y.numpy())
        entropy = -np.log(given[mine] / given.sum(1)).mean()
        penalty = sum((a**2).sum() for a in (*out[1:-1], *weights[:-1]))
        assert float(step.loss.detach()) == pytest.approx(entropy + 1e-5 * penalty, rel=1e-9)

        slope = given * (1 - given) / given.sum(1, keepdims=True)
        slope[mine] -= 1 - given[mine]
        slope /= 60
        kernels: list[Any] = []
        others: list[Any] = []
        for k in (3, 2, 1, 0):
            kernels.insert(0, out[k].T @ slope + (2e-5 * weights[k] if k < 3 else 0))
            others.insert(0, slope.sum(0))
            slope = (slope @ weights[k].T + 2e-5 * out[k]) * out[k] * (1 - out[k])
        for value, mean, gradient in zip((*weights, *biases), squares, (*kernels, *others), strict=True):
            mean[:] = 0.9 * mean + 0.1 * gradient**2
            value[...] = value - 0.001 * gradient / (np.sqrt(mean) + 1e-8)
    for layer, weight, bias in zip(layers, weights, biases, strict=True):
        assert np.allclose(layer.weight.detach().numpy().T, weight, rtol=0, atol=1e-9)
        assert np.allclose(layer.bias.detach().numpy(), bias, rtol=0, atol=1e-9)


def test_it_learns_nine_kinds_and_misses_the_tenth(data: Path) -> None:
    history = train(workload(data, epochs=12))
    first, last = history[0], history[-1]
    assert 0.05 < first["accuracy"] < 0.20  # published: .164
    assert 2.1 < first["loss"] < 2.5  # published: 2.316
    assert last["accuracy"] > 0.45
    assert 0.35 < last["test_accuracy"] < 0.75  # published: .475
    assert [epoch["val_accuracy"] for epoch in history] == [0.0] * 12
    assert first["val_loss"] < last["val_loss"] < 16.118 + 0.5
    assert "test_accuracy" not in history[-2]


def test_modern_learns_all_ten(data: Path) -> None:
    last = train(workload(data, recipe="modern", epochs=3))[-1]
    assert last["val_accuracy"] > 0.6
    assert last["val_loss"] < 1.5


def test_the_same_seed_gives_the_same_losses(data: Path) -> None:
    first, again, other = (train(workload(data, epochs=2), seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_files_with_different_kinds_are_refused(tmp_path: Path) -> None:
    for name, kind in zip(generate_p1b2.FILES, "XZ", strict=True):
        (tmp_path / name).write_text(f"case_id,cancer_type,A\na,{kind},1\nb,Y,0\n")
    with pytest.raises(InputError, match="X, Y and Y, Z"):
        workload(tmp_path, given=tmp_path).load()


def test_a_missing_file_is_named_with_its_layout_and_its_source(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        workload(tmp_path, given=tmp_path).load()
    for words in ("P1B2.train.csv", "P1B2.test.csv", "28,204 genes", "CANDLE", "joulelab data generate p1b2"):
        assert words in str(error.value)
