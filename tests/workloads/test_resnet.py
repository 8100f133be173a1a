# SPDX-License-Identifier: Apache-2.0
"""Both recipes train through the loop, learn, and look at held-out pictures as they say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from joulelab.data import cache_folder
from joulelab.errors import InputError
from joulelab.train.inference import run_inference
from joulelab.train.loop import run_repeat
from joulelab.train.precision import PRECISIONS
from joulelab.workloads import RECIPES
from joulelab.workloads.picture_augment import MEAN, STD, Cropped, Shifted
from joulelab.workloads.picture_source import Streamed
from joulelab.workloads.resnet import Resnet
from joulelab.workloads.workload import Setting
from tests.data import image_parts
from tests.train.train_parts import FakeMeter, job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from joulelab.records.trial import Repeat

SMALL: dict[str, Any] = {
    "depth": 18,
    "stem": "cifar",
    "image_size": 8,
    "width": 4,
    "images": 128,
    "classes": 4,
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more of them sum in another order
    yield
    torch.set_num_threads(threads)


def setting(root: Path, *, precision: str = "fp32", **more: Any) -> Setting:
    recipe = RECIPES["resnet"]
    given = {p.name: p.default for p in recipe.parameters} | SMALL
    knobs = {**recipe.knobs, "batch_size": 32, "epochs": 2, "precision": precision, "threads": 1}
    for name, value in more.items():
        (knobs if name in knobs else given)[name] = value
    return Setting(parameters=given, knobs=knobs, data=root, dtype=PRECISIONS[precision].dtype)


def loaded(root: Path, **more: Any) -> Resnet:
    made = Resnet(setting(root, **more))
    made.prepare()
    made.load()
    return made


def repeat(
    root: Path, *, seed: int = 1, workload: type[Resnet] = Resnet, **more: Any
) -> tuple[Repeat, list[dict[str, Any]]]:
    of = setting(root, **more)
    workload(of).prepare()
    lines: list[dict[str, Any]] = []
    one = replace(
        job(seed=seed, precision=str(of.knobs["precision"])),
        workload=workload,
        setting=of,
        epochs=int(of.knobs["epochs"]),
    )
    run = run_inference if of.knobs["task"] == "inference" else run_repeat
    done = run(one, meter=FakeMeter(), on_epoch=lines.append, on_progress=lambda step: None)
    return done, lines


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("drawn")


# ---- training ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", ["imagenet", "fast"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16", "fp64"])
def test_it_trains_through_the_loop(data: Path, recipe: str, precision: str) -> None:
    done, lines = repeat(data, recipe=recipe, precision=precision, images=136)
    assert done.valid, done.reason
    assert set(done.metrics) == {"loss", "val_loss", "val_accuracy", "val_top5"}
    assert done.skipped_steps <= (3 if precision == "fp16" else 0), "the scaler's warm-up"
    # The last, smaller batch belongs to one recipe and not to the other.
    assert done.samples == 2 * (128 if recipe == "fast" else 136)
    assert len(lines) == 2


@pytest.mark.parametrize("recipe", ["imagenet", "fast"])
def test_the_seed_decides_the_losses(data: Path, recipe: str) -> None:
    runs = [repeat(data, recipe=recipe, seed=seed, images=64)[0].metrics for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.parametrize(("recipe", "rate"), [("imagenet", 0.4), ("fast", 0.8)])
def test_it_learns(data: Path, recipe: str, rate: float) -> None:
    more: dict[str, Any] = {"image_size": 16, "images": 512, "width": 8, "epochs": 6}
    done, lines = repeat(data, recipe=recipe, learning_rate=rate, **more)
    assert done.valid
    assert done.metrics["val_accuracy"] > 0.75, "chance is a quarter"
    assert lines[-1]["loss"] < 0.8 * lines[0]["loss"]


def test_large_pictures_are_cut_and_grow(data: Path) -> None:
    sizes: list[tuple[int, int]] = []

    class Noted(Resnet):
        def loss(self, model: nn.Module, batch: Any) -> Any:
            sizes.append(tuple(batch[0].shape[2:]))
            return super().loss(model, batch)

        def _logits(self, model: nn.Module, x: torch.Tensor) -> torch.Tensor:
            looked.append(tuple(x.shape[2:]))
            return super()._logits(model, x)

    looked: list[tuple[int, ...]] = []
    more: dict[str, Any] = {"stem": "imagenet", "image_size": 96, "images": 8, "batch_size": 8, "epochs": 6}
    done, _ = repeat(data, workload=Noted, recipe="fast", **more)
    assert done.valid
    assert sizes == [(64, 64)] * 3 + [(96, 96)] * 3
    assert set(looked) == {(96, 96)}
    sizes.clear()
    repeat(data, workload=Noted, recipe="imagenet", **{**more, "epochs": 1})
    assert sizes == [(96, 96)]


def test_what_is_done_to_a_picture(data: Path) -> None:
    def draws(**more: Any) -> Shifted | Cropped:
        made = loaded(data, **more)
        next(iter(made.batches(1, torch.Generator().manual_seed(0))))
        assert made._draws is not None
        return made._draws

    small, fast = draws(), draws(recipe="fast")
    assert isinstance(small, Shifted)
    assert isinstance(fast, Shifted)
    assert small._hole is None
    assert fast._hole is not None
    more: dict[str, Any] = {"image_size": 65, "images": 2000, "batch_size": 2000, "stem": "imagenet"}
    for recipe, least in (("imagenet", 0.08), ("fast", 0.35)):
        cut = draws(recipe=recipe, **more)
        assert isinstance(cut, Cropped)
        area = (cut._theta[:, 0, 0] * cut._theta[:, 1, 1]).abs()
        assert least <= float(area.min()) * 1.001 < least + 0.05


def test_a_batch_is_the_pictures_of_the_source_augmented(data: Path) -> None:
    made = loaded(data, batch_size=20)
    given = list(made.batches(1, torch.Generator().manual_seed(3)))
    assert [len(batch.labels) for batch in given] == [20] * 6 + [8]
    rows = torch.cat([batch.rows for batch in given])
    assert sorted(rows.tolist()) == list(range(128)), "each once"
    x, y = made.place(given[2])
    assert torch.equal(y, made.train.labels[given[2].rows])
    assert made._draws is not None
    cut = made._draws.cut(given[2].pictures, given[2].rows, given[2].part).double() / 255
    wanted = ((cut - torch.tensor(MEAN)) / torch.tensor(STD)).permute(0, 3, 1, 2)
    torch.testing.assert_close(x.double(), wanted, atol=1e-5, rtol=1e-5)


def test_streamed_pictures_give_the_same_training(data: Path) -> None:
    class Sent(Resnet):
        def load(self) -> None:
            super().load()
            for part in ("train", "val"):
                here = getattr(self, part)
                setattr(self, part, Streamed(here._table, here.labels, device=here.device))

    for recipe in ("imagenet", "fast"):
        here, sent = (repeat(data, workload=kind, recipe=recipe)[0] for kind in (Resnet, Sent))
        assert here.metrics == sent.metrics


def test_smoothing_is_in_the_loss_of_one_recipe(data: Path) -> None:
    net = nn.Linear(5, 4)
    x, y = torch.randn(3, 5), torch.tensor([0, 3, 1])
    plain = functional.cross_entropy(net(x), y)
    towards_all = -functional.log_softmax(net(x), 1).mean()
    for recipe, wanted in (("imagenet", plain), ("fast", 0.9 * plain + 0.1 * towards_all)):
        step = Resnet(setting(data, recipe=recipe)).loss(net, (x, y))
        assert step.samples == 3
        torch.testing.assert_close(step.loss, wanted)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_loss_of_half_formats_is_in_full(data: Path, dtype: torch.dtype) -> None:
    made = loaded(data)
    torch.manual_seed(0)
    model = made.model()
    x, y = made.place(next(iter(made.batches(1, torch.Generator().manual_seed(0)))))
    whole = made.loss(model, (x, y)).loss.detach()
    with torch.autocast("cpu", dtype):
        half = made.loss(model, (x, y)).loss.detach()
    assert half.dtype == torch.float32
    assert float(half) == pytest.approx(float(whole), rel=0.03)


# ---- rates, groups, means ----------------------------------------------------------------------------------


def rates(made: Resnet, steps: int) -> list[float]:
    model = made.model()
    optimizer = made.optimizer(model)
    found = [optimizer.param_groups[0]["lr"]]
    for step in range(1, steps):
        made.on_step_end(model, optimizer, step=step)
        assert len({group["lr"] for group in optimizer.param_groups}) == 1
        found.append(optimizer.param_groups[0]["lr"])
    return found


def test_rates_grow_with_the_batch_and_fall_by_the_recipe(data: Path) -> None:
    # 128 pictures, 32 a batch: 12 steps in 3 epochs, and 0.1 is for 256.
    found = rates(loaded(data, epochs=3), 12)
    assert found == pytest.approx([0.1 / 8] * 4 + [0.01 / 8] * 4 + [0.001 / 8] * 4)
    fast = rates(loaded(data, epochs=10, recipe="fast"), 41)
    assert max(fast) == pytest.approx(0.1 / 8)
    assert fast.index(max(fast)) == 8, "a fifth of the training"
    assert (fast[0], fast[40]) == pytest.approx((0.01 / 8, 0.001 / 8))


@pytest.mark.parametrize("accumulate", [1, 2, 3, 8])
def test_the_schedule_ends_with_the_training_however_many_batches_make_a_step(
    data: Path, accumulate: int
) -> None:
    seen: list[float] = []

    class Noted(Resnet):
        def on_step_end(self, model: nn.Module, optimizer: torch.optim.Optimizer, *, step: int) -> None:
            super().on_step_end(model, optimizer, step=step)
            seen.append(optimizer.param_groups[0]["lr"] / self.rate)

    done, _ = repeat(data, workload=Noted, recipe="fast", accumulate=accumulate, epochs=5)
    assert done.valid
    assert len(seen) == 5 * -(-4 // accumulate)
    assert seen[-1] == pytest.approx(0.01)
    assert min(seen[:-1]) > 0.011, "and not before it"


def test_what_decays(data: Path) -> None:
    def groups(**more: Any) -> list[tuple[int, float]]:
        made = loaded(data, **more)
        found = made.optimizer(made.model()).param_groups
        assert {group["momentum"] for group in found} == {0.9}
        assert {group["nesterov"] for group in found} == {more.get("recipe") == "fast"}
        return [(sum(p.numel() for p in group["params"]), group["weight_decay"]) for group in found]

    model = loaded(data).model()
    flat = sum(p.numel() for p in model.parameters() if p.ndim < 2)
    total = sum(p.numel() for p in model.parameters())
    assert groups() == [(total, 1e-4)]
    assert groups(recipe="fast") == [(total - flat, 5e-4), (flat, 0.0)]
    large = groups(recipe="fast", image_size=65, images=32)
    assert [decay for _, decay in large] == [5e-5, 0.0]


def test_under_loss_scaling_no_fused_step_is_asked_for(data: Path) -> None:
    # It advances its momentum on the steps that are to be skipped, until everything is NaN.
    for precision, fused in (("fp16", False), ("bf16", True), ("fp32", True)):
        made = loaded(data, precision=precision)
        model = made.model()
        made.setting = replace(made.setting, device=torch.device("cuda"))
        (group,) = made.optimizer(model).param_groups
        assert bool(group["fused"]) == fused, precision


def test_the_mean_of_the_weights_is_evaluated_and_taken_off_again(data: Path) -> None:
    made = loaded(data, recipe="fast", epochs=1)
    made._epoch = 1
    torch.manual_seed(0)
    model = made.model().eval()
    optimizer = made.optimizer(model)
    with torch.no_grad():
        before = made.evaluate(model)
        made.on_step_end(model, optimizer, step=4)
        for parameter in model.parameters():
            parameter.fill_(float("nan"))
        assert made.evaluate(model) == pytest.approx(before)
    assert all(parameter.isnan().all() for parameter in model.parameters())


def test_of_a_short_epoch_the_weights_are_looked_at_as_well(data: Path) -> None:
    # Three steps in all, and the mean is taken every fourth: what was evaluated was the network of the start.
    kept: list[torch.Tensor] = []

    class Noted(Resnet):
        def _score(self, model: nn.Module) -> dict[str, float]:
            kept.append(model.fc.weight.detach().clone())  # type: ignore[union-attr, operator]
            return super()._score(model)

        def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
            kept.append(model.fc.weight.detach().clone())  # type: ignore[union-attr, operator]
            return super().optimizer(model)

    repeat(data, workload=Noted, recipe="fast", batch_size=128, epochs=3)
    start, *evaluated = kept
    assert len(evaluated) == 2
    assert all(not torch.equal(start, each) for each in evaluated)


# ---- held-out pictures -------------------------------------------------------------------------------------


def direct(made: Resnet, model: nn.Module, *, mirrored: bool) -> dict[str, float]:
    """Figures of one pass over all held-out pictures, one after the other."""
    loss, first, five = 0.0, 0, 0
    pixels, labels = made.val._table, made.val.labels
    room = (pixels.shape[1] - made.size) // 2
    for row in made.val._rows.tolist():
        one = pixels[row, room : room + made.size, room : room + made.size].double() / 255
        x = ((one - torch.tensor(MEAN)) / torch.tensor(STD)).permute(2, 0, 1)[None].float()
        logits = (model(x) + model(x.flip(-1))) / 2 if mirrored else model(x)
        loss += float(functional.cross_entropy(logits, labels[row : row + 1]))
        ranked = logits[0].argsort(descending=True).tolist()
        first += ranked[0] == int(labels[row])
        five += int(labels[row]) in ranked[:5]
    count = len(made.val)
    return {"val_loss": loss / count, "val_accuracy": first / count, "val_top5": five / count}


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize(("batch_size", "size"), [(32, 8), (7, 8), (50, 8), (64, 8), (16, 66)])
def test_every_held_out_picture_counts_once(
    data: Path,
    batch_size: int,
    size: int,
    mirrored: bool,  # noqa: FBT001
) -> None:
    more: dict[str, Any] = {"classes": 10, "images": 200, "batch_size": batch_size, "image_size": size}
    made = loaded(data, evaluate_mirrored=mirrored, **more)
    assert len(made.val) == 50
    torch.manual_seed(0)
    model = made.model().eval()
    with torch.no_grad():
        assert made.evaluate(model) == pytest.approx(direct(made, model, mirrored=mirrored), rel=1e-4)


def test_batches_of_an_evaluation_are_alike_and_not_larger_than_they_need(data: Path) -> None:
    for batch_size, shapes in ((7, [7] * 8), (50, [50]), (512, [50])):
        made = loaded(data, classes=10, images=200, batch_size=batch_size)
        found = list(made._held_out(made.val))
        assert [len(x) for x, _, _ in found] == shapes
        assert sum(int(known.sum()) for _, _, known in found) == 50


def test_fewer_than_five_classes_have_a_top_five_of_all(data: Path) -> None:
    done, _ = repeat(data, epochs=1, images=32)
    assert done.metrics["val_top5"] == 1.0


def test_while_its_rates_are_high_the_fast_recipe_does_not_look(data: Path) -> None:
    for recipe, looked in (("fast", [3, 4, 5]), ("imagenet", [1, 2, 3, 4, 5])):
        _, lines = repeat(data, recipe=recipe, epochs=5, images=32)
        assert [line["epoch"] for line in lines if "val_accuracy" in line] == looked


@pytest.mark.parametrize("recipe", ["imagenet", "fast"])
def test_a_target_ends_the_training(data: Path, recipe: str) -> None:
    more: dict[str, Any] = {"recipe": recipe, "epochs": 6, "images": 64}
    done, lines = repeat(data, target="val_accuracy >= 0.1", **more)
    assert (done.reached, done.valid, done.target) == (True, True, "val_accuracy >= 0.1")
    first = 3 if recipe == "fast" else 1
    assert done.epochs == len(lines) == first, "at the first evaluation"
    done, _ = repeat(data, target="val_loss <= -1", **more)
    assert (done.reached, done.valid, done.epochs) == (False, True, 6)


def test_inference_is_one_pass_over_the_held_out_pictures(data: Path) -> None:
    seen: list[int] = []

    class Noted(Resnet):
        def _logits(self, model: nn.Module, x: torch.Tensor) -> torch.Tensor:
            assert not model.training
            seen.append(len(x))
            return super()._logits(model, x)

    more: dict[str, Any] = {"classes": 10, "images": 200, "task": "inference", "epochs": 3}
    done, _ = repeat(data, workload=Noted, **more)
    assert (done.task, done.samples, done.epochs, done.valid) == ("inference", 150, 3, True)
    assert seen == [32, 18] * 3, "none is looked at twice to fill a batch up"


def test_what_is_not_trained_does_not_begin_as_nought(data: Path) -> None:
    for task, empty in (("train", True), ("inference", False)):
        model = loaded(data, recipe="fast", task=task).model()
        assert bool((model.layer1[0].bn2.weight == 0).all()) == empty  # type: ignore[union-attr, index]


def test_noise_on_the_device_is_trained_on_and_not_evaluated(tmp_path: Path) -> None:
    more: dict[str, Any] = {"data": "device", "image_size": 32, "images": 100}
    for recipe in ("imagenet", "fast"):
        done, _ = repeat(tmp_path, recipe=recipe, **more)
        assert done.valid
        assert (done.samples, set(done.metrics)) == (2 * 96, {"loss"})
    done, _ = repeat(tmp_path, task="inference", **more)
    assert done.samples == 2 * 96
    assert list(tmp_path.iterdir()) == [], "nothing is written"


# ---- pictures from files -----------------------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(cache_folder.VARIABLE, raising=False)
    image_parts.folder(tmp_path / "images" / "train", each=10)
    image_parts.folder(tmp_path / "images" / "val", each=5)
    return tmp_path / "images"


def test_folders_are_decoded_before_the_training_and_progress_is_said(folders: Path, tmp_path: Path) -> None:
    said: list[str] = []
    made = Resnet(replace(setting(tmp_path, data=str(folders), batch_size=8), say=said.append))
    made.prepare()
    assert said[0] == f"decoding {folders / 'train'}: 0 of 20 images"
    assert said[-1] == f"decoding {folders / 'val'}: 10 of 10 images"
    assert len(said) <= 2 * 11
    said.clear()
    made.load()
    assert said == [], "all was done"
    assert made.classes == 2
    assert torch.equal(made.train._table, torch.from_numpy(image_parts.pixels(20)))
    assert made.val.labels.tolist() == [0] * 5 + [1] * 5
    assert (made.steps, made.notes) == (3, ())


def test_a_corrupt_picture_is_told_in_the_log_and_beside_the_figures(folders: Path, tmp_path: Path) -> None:
    (folders / "train" / "class 1" / "3.png").write_bytes(b"no image")
    said: list[str] = []
    given = replace(setting(tmp_path, data=str(folders), batch_size=8), say=said.append)
    Resnet(given).prepare()
    (note,) = (words for words in said if "decoding" not in words)
    assert note.startswith(
        f"{folders / 'train'}: 1 of 20 images cannot be decoded and are left out: class 1/3.png"
    )
    for task in ("train", "inference"):
        done, _ = repeat(tmp_path, data=str(folders), batch_size=8, epochs=1, task=task)
        assert done.valid
        assert note in done.total.flags
        assert done.samples == (19 if task == "train" else 10)


def test_different_classes_are_refused_before_anything_is_decoded(folders: Path, tmp_path: Path) -> None:
    (folders / "val" / "class 1").rename(folders / "val" / "class 3")
    with pytest.raises(InputError, match=r"different classes: only one of them has class 1, class 3"):
        Resnet(setting(tmp_path, data=str(folders))).prepare()
    assert not (folders / "train" / cache_folder.BESIDE).exists()
    with pytest.raises(InputError, match="nowhere/train is not a folder of images"):
        Resnet(setting(tmp_path, data=str(tmp_path / "nowhere"))).prepare()


def test_a_batch_larger_than_the_set_is_refused_before_the_training(folders: Path, tmp_path: Path) -> None:
    given = setting(tmp_path, data=str(folders), recipe="fast", batch_size=21)
    with pytest.raises(
        InputError, match=r"batch_size = 21 is more than the 20 training pictures(.|\n)*up to 20"
    ):
        Resnet(given).prepare()
    Resnet(setting(tmp_path, data=str(folders), batch_size=21)).prepare()


def test_drawn_pictures_are_made_once_for_all_trials(tmp_path: Path) -> None:
    Resnet(setting(tmp_path)).prepare()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    before = [file.stat().st_mtime_ns for file in files]
    assert loaded(tmp_path, recipe="fast").train.labels.bincount().tolist() == [32] * 4
    assert [file.stat().st_mtime_ns for file in files] == before
    assert sorted(tmp_path.iterdir()) == files
