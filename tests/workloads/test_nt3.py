# SPDX-License-Identifier: Apache-2.0
"""NT3 is the benchmark's network, data and schedule, and a smaller one below full scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from joulelab.data import generate_nt3
from joulelab.errors import InputError
from joulelab.workloads import RECIPES, candle, nt3
from joulelab.workloads.nt3 import NT3, filters, first_dense_factor, flat_features, network
from joulelab.workloads.workload import Setting
from tests.workloads.candle_parts import train

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.records.parameter import Scalar


CHOICES = ("paper", "modern")


def workload(
    data: Path, *, folder: Path | str = "", recipe: str = "paper", scale: float = 0.002, **more: Any
) -> NT3:
    parameters: dict[str, Scalar] = {"scale": scale, "data": str(folder), "recipe": recipe}
    parameters["stop_after"] = more.pop("stop_after", 0)
    chosen = {**RECIPES["nt3"].knobs, **more}
    return NT3(Setting(parameters=parameters, knobs=chosen, data=data))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> NT3:
    made = workload(tmp_path_factory.mktemp("data"))
    made.prepare()
    made.load()
    return made


def test_full_width_has_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        net = network(genes=generate_nt3.GENES, filters=filters(1.0))
    assert sum(p.numel() for p in net.parameters()) == 154_922_918
    by_layer = {name: sum(p.numel() for p in layer.parameters()) for name, layer in net.named_children()}
    assert {name: count for name, count in by_layer.items() if count} == {
        "conv_1": 2_688,
        "conv_2": 163_968,
        "dense_1": 154_752_200,
        "dense_2": 4_020,
        "dense_3": 42,
    }


def test_layers_in_their_order() -> None:
    names = [type(layer).__name__ for layer in network(genes=100, filters=8).children()]
    assert names == [
        *("Conv1d", "ReLU", "Conv1d", "ReLU", "MaxPool1d", "Flatten"),
        *("Linear", "ReLU", "Dropout", "Linear", "ReLU", "Dropout", "Linear"),
    ]
    assert network(genes=100, filters=8)(torch.zeros(3, 1, 100)).shape == (3, 2)


def test_weights_start_as_glorot_says_and_biases_at_nought() -> None:
    torch.manual_seed(0)
    net = network(genes=2_000, filters=128)
    for name, parameter in net.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
            continue
        kernel = parameter[0, 0].numel() if parameter.dim() == 3 else 1
        bound = (6 / (kernel * (parameter.shape[0] + parameter.shape[1]))) ** 0.5
        assert parameter.abs().max().item() <= bound
        if parameter.numel() > 1_000:
            assert parameter.abs().max().item() > 0.99 * bound
            assert parameter.std().item() == pytest.approx(bound / 3**0.5, rel=0.03)


@pytest.mark.parametrize(("scale", "wide"), [(1.0, 128), (0.5, 88), (0.1, 40), (0.035, 16), (0.001, 8)])
def test_filters_shrink_with_the_square_root(scale: float, wide: int) -> None:
    assert filters(scale) == wide


def test_the_first_dense_layer_moves_its_output_as_far_at_any_width() -> None:
    assert first_dense_factor(genes=60_483, scale=1.0) == 1.0
    for scale in (0.5, 0.1, 0.035):
        genes = generate_nt3.scaled_genes(scale)
        features = flat_features(genes=genes, filters=filters(scale))
        assert first_dense_factor(genes=genes, scale=scale) * features == pytest.approx(773_760)


def test_too_few_genes_for_the_layers_are_refused() -> None:
    network(genes=38, filters=8)
    with pytest.raises(InputError, match="at least 38 genes, and there are 37"):
        network(genes=37, filters=8)
    smallest = next(p.minimum for p in RECIPES["nt3"].parameters if p.name == "scale")
    assert smallest is not None
    assert generate_nt3.scaled_genes(smallest) >= 38, "the smallest legal scale is a network"


def test_features_are_divided_by_the_largest_of_both_files(loaded: NT3) -> None:
    assert loaded.train_x.shape == (1_120, 1, 121)
    assert loaded.test_x.shape == (280, 1, 121)
    tables = [np.loadtxt(path, delimiter=",") for path in candle.files(loaded.setting, nt3.LAYOUT)]
    peak = np.abs(np.vstack(tables)).max(0)[1:]
    want = tables[0][:, 1:] / np.where(peak == 0, 1, peak)
    np.testing.assert_allclose(loaded.train_x[:, 0].numpy(), want, rtol=1e-6)
    assert torch.cat([loaded.train_x, loaded.test_x]).amax() == 1.0
    assert loaded.train_y.tolist() == tables[0][:, 0].tolist()


def test_an_epoch_is_every_row_once_in_a_new_order(loaded: NT3) -> None:
    loaded.batch_size = 64
    generator = torch.Generator().manual_seed(0)
    epochs = [list(loaded.batches(epoch, generator)) for epoch in (1, 2)]
    for batches in epochs:
        assert [len(y) for _, y in batches] == [64] * 17 + [32], "the last, smaller batch is kept"
        rows = torch.cat([x for x, _ in batches])[:, 0].sum(1)
        assert torch.equal(rows.sort().values, loaded.train_x[:, 0].sum(1).sort().values)
    assert not torch.equal(epochs[0][0][0], epochs[1][0][0])
    again = list(loaded.batches(1, torch.Generator().manual_seed(0)))
    assert torch.equal(again[0][0], epochs[0][0][0])


def test_the_loss_and_the_accuracy_of_a_batch(loaded: NT3) -> None:
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]])
    step = loaded.loss(lambda x: logits, (None, torch.tensor([0, 1, 1])))  # type: ignore[arg-type]
    want = -torch.log_softmax(logits, 1)[[0, 1, 2], [0, 1, 1]].mean()
    assert step.loss.item() == pytest.approx(want.item())
    assert step.metrics["accuracy"].item() == pytest.approx(2 / 3)
    assert step.samples == 3


def test_evaluation_is_over_the_test_file_whatever_the_batch(loaded: NT3) -> None:
    torch.manual_seed(0)
    model = loaded.model().eval()
    found = []
    with torch.no_grad():
        for size in (280, 64, 1):
            loaded.batch_size = size
            found.append(loaded.evaluate(model))
    assert set(found[0]) == {"val_loss", "val_accuracy"}
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    assert found[0] == pytest.approx(found[2], rel=1e-5)
    assert found[0]["val_loss"] == pytest.approx(0.693, abs=0.05)


def test_the_optimizer_is_plain_sgd_with_a_wider_step_for_one_layer(loaded: NT3) -> None:
    loaded.setting.knobs["learning_rate"] = 0.001  # type: ignore[index]
    model = loaded.model()
    optimizer = loaded.optimizer(model)
    factor = first_dense_factor(genes=121, scale=0.002)
    assert [group["lr"] for group in optimizer.param_groups] == [0.001, 0.001 * factor]
    assert all(not (g["momentum"] or g["weight_decay"] or g["fused"]) for g in optimizer.param_groups)
    wide = dict(model.named_parameters())["dense_1.weight"]
    assert optimizer.param_groups[1]["params"] == [wide]
    assert sum(len(group["params"]) for group in optimizer.param_groups) == 10


def test_the_rate_falls_in_the_tenth_epoch_without_progress_as_in_keras(loaded: NT3) -> None:
    optimizer = loaded.optimizer(loaded.model())

    def rates(losses: list[float]) -> list[float]:
        seen = []
        for loss in losses:
            loaded.on_epoch_end({"val_loss": loss}, optimizer)
            seen.append(optimizer.param_groups[0]["lr"])
        return seen

    rate = optimizer.param_groups[0]["lr"]
    # Keras waits ten epochs after the best one; less than 1e-4 better is no progress.
    assert rates([1.0] + [0.99995] * 9) == [rate] * 10
    assert rates([0.99995]) == pytest.approx([rate / 10])
    assert rates([0.5, 0.6]) == pytest.approx([rate / 10] * 2)
    for power in range(2, 12):
        assert rates([1.0] * 10)[-1] <= 1.01 * rate * 10.0**-power, "there is no lower end to it"


def test_a_stand_in_is_made_once_and_found_again(tmp_path: Path) -> None:
    first = workload(tmp_path)
    first.prepare()
    files = sorted(tmp_path.rglob("*.csv"))
    assert len(files) == 2
    stamps = [file.stat().st_mtime_ns for file in files]
    workload(tmp_path).prepare()
    assert [file.stat().st_mtime_ns for file in files] == stamps


def test_a_folder_that_is_given_is_used_and_nothing_is_made(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    mine = workload(tmp_path / "unused", folder=given)
    mine.prepare()
    assert not (tmp_path / "unused").exists()
    with pytest.raises(
        InputError, match=r"no nt_train2\.csv \(.*label 0 or 1.*no nt_test2\.csv(.|\n)*generate nt3"
    ):
        mine.load()
    (given / "nt_train2.csv").write_text("0,1,2\n1,3,4\n")
    (given / "nt_test2.csv").write_text("0,1\n")
    with pytest.raises(InputError, match="training file has 3 columns and the test file 2"):
        mine.load()
    (given / "nt_test2.csv").write_text("0,1,2\n1,,4\n")
    with pytest.raises(InputError, match=r"nt_test2\.csv: row 2, column 2: nan is not a finite number"):
        mine.load()
    (given / "nt_test2.csv").write_text("0.5,1,2\n")
    with pytest.raises(InputError, match="label, 0 or 1"):
        mine.load()


def test_files_of_another_width_than_the_scale_says_are_trained_on_as_they_are(tmp_path: Path) -> None:
    for name in generate_nt3.FILES:
        (tmp_path / name).write_text("0" + ",1.5" * 50 + "\n1" + ",2.5" * 50 + "\n")
    mine = workload(tmp_path, folder=tmp_path)
    mine.load()
    assert mine.model()(mine.train_x).shape == (2, 2)
    assert nt3.flat_features(genes=50, filters=8) == 16


def test_modern_reads_logarithms_and_keeps_the_test_file_for_the_end(loaded: NT3) -> None:
    mine = workload(loaded.setting.data, recipe="modern", epochs=2)
    mine.load()
    assert mine.train_x.shape == (1_008, 1, 121)
    assert mine.val_x.shape == (112, 1, 121)
    assert mine.val_y.float().mean() == 0.5, "a tenth of either kind"
    table = np.loadtxt(candle.files(mine.setting, nt3.LAYOUT)[0], delimiter=",")
    assert sorted([*mine.train_y.tolist(), *mine.val_y.tolist()]) == sorted(table[:, 0].tolist())
    assert mine.train_x.mean(0).abs().max() < 1e-4
    spread = mine.train_x.std(0)
    assert torch.all((spread - 1.0).abs().lt(1e-4) | (spread == 0))
    logs = np.log1p(table[:, 1:].astype(np.float32))
    gene = int(logs.min(0).argmax())
    found = torch.cat([mine.train_x, mine.val_x])[:, 0, gene].sort().values.numpy()
    assert np.corrcoef(found, np.sort(logs[:, gene]))[0, 1] == pytest.approx(1.0, abs=1e-5)
    again = workload(loaded.setting.data, recipe="modern")
    again.load()
    assert torch.equal(again.val_x, mine.val_x), "the same rows whatever the seed"
    model = mine.model().eval()
    with torch.no_grad():
        for epoch, names in ((1, set()), (2, {"test_loss", "test_accuracy"})):
            next(iter(mine.batches(epoch, torch.Generator())))
            assert set(mine.evaluate(model)) == {"val_loss", "val_accuracy"} | names


def test_modern_learns_in_epochs_in_which_the_paper_s_recipe_does_not(tmp_path: Path) -> None:
    last = {recipe: train(workload(tmp_path, recipe=recipe, epochs=3, scale=0.02)) for recipe in CHOICES}
    assert last["modern"][-1]["val_accuracy"] > 0.85
    assert last["modern"][-1]["test_accuracy"] > 0.85
    assert all(0.68 < epoch["loss"] < 0.70 for epoch in last["paper"])


def test_it_learns_over_epochs_as_the_real_run_began(tmp_path: Path) -> None:
    # The benchmark's own log: .6910 and .6871, accuracies near one half. At this width seeds differ widely in
    # what follows: accuracies of .54 to .73 in the eighth epoch of four, where the full width had .83.
    history = train(workload(tmp_path, scale=0.02, epochs=8), seed=4)
    losses = [epoch["loss"] for epoch in history]
    assert losses[0] == pytest.approx(0.6910, abs=0.004)
    assert losses[1] == pytest.approx(0.6871, abs=0.006)
    assert 0.45 < history[0]["accuracy"] < 0.6
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.665
    assert history[-1]["accuracy"] > 0.65
    # The rate of 96 workers, with which the study's accuracy fell to chance.
    collapsed = train(workload(tmp_path, scale=0.02, epochs=3, learning_rate=0.096), seed=1)
    assert all(epoch["loss"] > 0.69 for epoch in collapsed)


def test_modern_slows_the_layer_with_most_inputs(loaded: NT3) -> None:
    mine = workload(loaded.setting.data, recipe="modern")
    mine.load()
    for inputs, factor in ((500, 1.0), (4_000, 0.25)):
        model = torch.nn.ModuleDict({"dense_1": torch.nn.Linear(inputs, 3), "dense_2": torch.nn.Linear(3, 2)})
        optimizer = mine.optimizer(model)
        assert isinstance(optimizer, torch.optim.AdamW)
        assert [group["lr"] for group in optimizer.param_groups] == [0.001, 0.001 * factor]
        assert [len(group["params"]) for group in optimizer.param_groups] == [3, 1]


def test_a_limit_ends_the_training(loaded: NT3) -> None:
    mine = workload(loaded.setting.data, stop_after=3600)
    mine.load()
    model = mine.model().eval()
    optimizer = mine.optimizer(model)
    next(iter(mine.batches(1, torch.Generator())))
    with torch.no_grad():
        figures = mine.evaluate(model)
    assert mine.on_epoch_end(figures, optimizer) is False
    mine._ending._begun_s -= 3600
    with torch.no_grad():
        mine.evaluate(model)
    assert mine.on_epoch_end(figures, optimizer) is True


def test_cudnn_measures_while_batches_are_drawn_and_not_after(loaded: NT3) -> None:
    assert not torch.backends.cudnn.benchmark
    seen = [torch.backends.cudnn.benchmark for _ in loaded.batches(1, torch.Generator().manual_seed(0))]
    assert all(seen)
    assert not torch.backends.cudnn.benchmark
    broken_off = loaded.batches(1, torch.Generator())
    next(iter(broken_off))
    del broken_off
    assert not torch.backends.cudnn.benchmark


def test_a_plateau_goes_on_where_it_stood(tmp_path: Path) -> None:
    one, other = (workload(tmp_path, scale=0.003) for _ in range(2))
    optimizers = []
    for each in (one, other):
        each.prepare()
        each.load()
        optimizers.append(each.optimizer(each.model()))
    for _ in range(8):
        one.on_epoch_end({"val_loss": 1.0}, optimizers[0])
    other.restore(one.state())
    for each, optimizer in zip((one, other), optimizers, strict=True):
        before = optimizer.param_groups[0]["lr"]
        for _ in range(2):
            assert optimizer.param_groups[0]["lr"] == before
            each.on_epoch_end({"val_loss": 1.0}, optimizer)
        each.on_epoch_end({"val_loss": 1.0}, optimizer)
        assert optimizer.param_groups[0]["lr"] == before / 10
