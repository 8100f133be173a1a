# SPDX-License-Identifier: Apache-2.0
"""Both recipes train through the loop, and learn; rates, decay and means are as they say."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from joulelab.workloads.picture_augment import MEAN, STD, Cropped, Shifted
from joulelab.workloads.picture_source import Streamed
from joulelab.workloads.resnet import Resnet
from tests.workloads.resnet_parts import loaded, repeat, setting

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("recipe", ["imagenet", "fast"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16", "fp64"])
def test_it_trains_through_the_loop(drawn: Path, recipe: str, precision: str) -> None:
    done, lines = repeat(drawn, recipe=recipe, precision=precision, images=136)
    assert done.valid, done.reason
    assert set(done.metrics) == {"loss", "val_loss", "val_accuracy", "val_top5"}
    assert done.skipped_steps <= (3 if precision == "fp16" else 0), "the scaler's warm-up"
    # The last, smaller batch belongs to one recipe and not to the other.
    assert done.samples == 2 * (128 if recipe == "fast" else 136)
    assert len(lines) == 2


@pytest.mark.parametrize("recipe", ["imagenet", "fast"])
def test_the_seed_decides_the_losses(drawn: Path, recipe: str) -> None:
    runs = [repeat(drawn, recipe=recipe, seed=seed, images=64)[0].metrics for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


LARGE = {"image_size": 66, "stem": "imagenet", "images": 32, "batch_size": 8}
# In fp64, of version 0.1.0 before anything but the recipe could be chosen.
SEEDED = {
    ("imagenet", 8): (1.7206821086328294, 1.4303468453943362, 1.506537675857544),
    ("imagenet", 66): (1.4470712723693806, 1.4551599822402652, 1.4308133125305176),
    ("fast", 8): (1.4539574786199578, 1.4171355479023553, 1.3947337865829468),
    ("fast", 66): (1.437342109944359, 1.4200170273659913, 1.378251552581787),
}


@pytest.mark.parametrize(("recipe", "size"), SEEDED)
def test_what_can_be_chosen_leaves_the_recipes_as_they_were(drawn: Path, recipe: str, size: int) -> None:
    more: dict[str, Any] = LARGE if size == 66 else {}
    done, lines = repeat(drawn, recipe=recipe, precision="fp64", evaluate_mirrored=True, **more)
    found = [lines[0]["loss"], lines[1]["loss"], done.metrics["val_loss"]]
    assert found == pytest.approx(SEEDED[recipe, size], rel=1e-6)


CHOSEN: dict[str, dict[str, Any]] = {
    "decay": {"decay": 0.05},
    "smoothing": {"smoothing": 0.3},
    "hole": {"hole": 4},
    "mirror": {"mirror": "alternating"},
    "augment": {"augment": "strong"},
    "cutmix": {"mix": "cutmix"},
    "mixup": {"mix": "mixup", "mix_share": 1.0},
    "both": {"mix": "both", "mix_until": 0.5},
}


@pytest.mark.parametrize("name", CHOSEN)
def test_the_seed_decides_the_losses_of_every_choice_and_each_changes_them(drawn: Path, name: str) -> None:
    more: dict[str, Any] = {"recipe": "imagenet", "images": 64, "learning_rate": 0.4}
    plain = repeat(drawn, **more)[0].metrics
    runs = [repeat(drawn, **more, **CHOSEN[name], seed=seed)[0] for seed in (1, 1, 2)]
    assert all(run.valid for run in runs)
    assert runs[0].metrics == runs[1].metrics
    assert runs[0].metrics != runs[2].metrics
    assert runs[0].metrics != plain


@pytest.mark.parametrize("recipe", ["imagenet", "fast"])
@pytest.mark.parametrize("size", [16, 66])
def test_all_together_train_and_learn_to_the_order_in_memory(drawn: Path, recipe: str, size: int) -> None:
    orders = []

    class Noted(Resnet):
        def loss(self, model: nn.Module, batch: Any) -> Any:
            orders.append(batch[0].is_contiguous(memory_format=torch.channels_last))
            assert len(batch) == (4 if self._epoch <= 2 else 2), "mixed until two thirds of three epochs"
            return super().loss(model, batch)

    more: dict[str, Any] = {"mix": "both", "mix_until": 0.6, "augment": "strong", "evaluate_shifted": True}
    more |= LARGE if size == 66 else {"image_size": 16, "mirror": "alternating"}
    done, _ = repeat(
        drawn,
        workload=Noted,
        recipe=recipe,
        precision="bf16",
        memory_format="channels_last",
        epochs=3,
        **more,
    )
    assert done.valid, done.reason
    assert orders == [True] * len(orders)


def test_it_learns_from_mixed_and_changed_pictures(drawn: Path) -> None:
    more: dict[str, Any] = {"image_size": 16, "images": 512, "width": 8, "epochs": 6, "learning_rate": 0.8}
    done, _ = repeat(drawn, recipe="fast", mix="cutmix", mirror="alternating", hole=0, **more)
    assert done.valid
    assert done.metrics["val_accuracy"] > 0.6, "chance is a quarter"


def test_the_loss_of_a_mixed_picture_is_that_of_both_labels(drawn: Path) -> None:
    made = Resnet(setting(drawn, recipe="imagenet", mix="cutmix"))
    # Logits of 0 and log 3: the first class has a quarter, the second three.
    logits = torch.tensor([[0.0, math.log(3.0)]] * 2, dtype=torch.float64)
    batch = logits, torch.tensor([0, 1]), torch.tensor([1, 0]), torch.tensor([0.75, 0.5], dtype=torch.float64)
    step = made.loss(nn.Identity(), batch)
    first, second = math.log(4.0), math.log(4.0 / 3.0)
    wanted = (0.75 * first + 0.25 * second + 0.5 * second + 0.5 * first) / 2
    assert float(step.loss) == pytest.approx(wanted)
    assert step.samples == 2
    # Alone with itself a picture costs what it costs without.
    alone = made.loss(nn.Identity(), (*batch[:3], torch.ones(2, dtype=torch.float64)))
    assert float(alone.loss) == pytest.approx(float(made.loss(nn.Identity(), batch[:2]).loss))


def test_a_batch_is_changed_in_its_order(drawn: Path) -> None:
    """Cut and mirrored, colours, places, hole, and mixed at last: a hole of one lies in the other as well."""
    made = loaded(drawn, augment="strong", mix="cutmix", mix_share=1.0, hole=4, batch_size=20)
    given = list(made.batches(1, torch.Generator().manual_seed(3)))[2]
    x, y, others, own = made.place(given)
    draws, strong, mixed = made._draws, made._strong, made._mixed
    assert draws is not None
    assert strong is not None
    assert mixed is not None
    tinted = strong.colour(draws.cut(given.pictures, given.rows, given.part), given.part)
    holed = draws.finish(strong.place(made._normal(tinted), given.part), given.part)
    wanted = mixed(holed, given.labels, given.part)
    assert torch.equal(x, wanted[0])
    assert torch.equal(y, given.labels)
    assert torch.equal(others, given.labels.flip(0))
    assert torch.equal(own, wanted[2])
    assert given.part == slice(40, 60)


@pytest.mark.parametrize(("recipe", "rate"), [("imagenet", 0.4), ("fast", 0.8)])
def test_it_learns(drawn: Path, recipe: str, rate: float) -> None:
    more: dict[str, Any] = {"image_size": 16, "images": 512, "width": 8, "epochs": 6}
    done, lines = repeat(drawn, recipe=recipe, learning_rate=rate, **more)
    assert done.valid
    assert done.metrics["val_accuracy"] > 0.75, "chance is a quarter"
    assert lines[-1]["loss"] < 0.8 * lines[0]["loss"]


def test_large_pictures_are_cut_and_grow(drawn: Path) -> None:
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
    done, _ = repeat(drawn, workload=Noted, recipe="fast", **more)
    assert done.valid
    assert sizes == [(64, 64)] * 3 + [(96, 96)] * 3
    assert set(looked) == {(96, 96)}
    sizes.clear()
    repeat(drawn, workload=Noted, recipe="imagenet", **{**more, "epochs": 1})
    assert sizes == [(96, 96)]


def test_what_is_done_to_a_picture(drawn: Path) -> None:
    def draws(**more: Any) -> Shifted | Cropped:
        made = loaded(drawn, **more)
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


def test_a_batch_is_the_pictures_of_the_source_augmented(drawn: Path) -> None:
    made = loaded(drawn, batch_size=20)
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


def test_streamed_pictures_give_the_same_training(drawn: Path) -> None:
    class Sent(Resnet):
        def load(self) -> None:
            super().load()
            for part in ("train", "val"):
                here = getattr(self, part)
                setattr(self, part, Streamed(here._table, here.labels, device=here.device))

    for recipe in ("imagenet", "fast"):
        here, sent = (repeat(drawn, workload=kind, recipe=recipe)[0] for kind in (Resnet, Sent))
        assert here.metrics == sent.metrics


def test_smoothing_is_in_the_loss_of_one_recipe(drawn: Path) -> None:
    net = nn.Linear(5, 4)
    x, y = torch.randn(3, 5), torch.tensor([0, 3, 1])
    plain = functional.cross_entropy(net(x), y)
    towards_all = -functional.log_softmax(net(x), 1).mean()
    for recipe, wanted in (("imagenet", plain), ("fast", 0.9 * plain + 0.1 * towards_all)):
        step = Resnet(setting(drawn, recipe=recipe)).loss(net, (x, y))
        assert step.samples == 3
        torch.testing.assert_close(step.loss, wanted)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_loss_of_half_formats_is_in_full(drawn: Path, dtype: torch.dtype) -> None:
    made = loaded(drawn)
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


def test_rates_grow_with_the_batch_and_fall_by_the_recipe(drawn: Path) -> None:
    # 128 pictures, 32 a batch: 12 steps in 3 epochs, and 0.1 is for 256.
    found = rates(loaded(drawn, epochs=3), 12)
    assert found == pytest.approx([0.1 / 8] * 4 + [0.01 / 8] * 4 + [0.001 / 8] * 4)
    fast = rates(loaded(drawn, epochs=10, recipe="fast"), 41)
    assert max(fast) == pytest.approx(0.1 / 8)
    assert fast.index(max(fast)) == 8, "a fifth of the training"
    assert (fast[0], fast[40]) == pytest.approx((0.01 / 8, 0.001 / 8))
    late = rates(loaded(drawn, epochs=10, recipe="fast", peak=0.5), 41)
    assert late.index(max(late)) == 20
    assert (max(late), late[40]) == pytest.approx((0.1 / 8, 0.001 / 8))
    falling = rates(loaded(drawn, epochs=10, recipe="fast", peak=0.0), 41)
    assert falling == sorted(falling, reverse=True), "no warm-up at all"
    assert falling[0] == pytest.approx(0.1 / 8)


@pytest.mark.parametrize("accumulate", [1, 2, 3, 8])
def test_the_schedule_ends_with_the_training_however_many_batches_make_a_step(
    drawn: Path, accumulate: int
) -> None:
    seen: list[float] = []

    class Noted(Resnet):
        def on_step_end(self, model: nn.Module, optimizer: torch.optim.Optimizer, *, step: int) -> None:
            super().on_step_end(model, optimizer, step=step)
            seen.append(optimizer.param_groups[0]["lr"] / self.rate)

    done, _ = repeat(drawn, workload=Noted, recipe="fast", accumulate=accumulate, epochs=5)
    assert done.valid
    assert len(seen) == 5 * -(-4 // accumulate)
    assert seen[-1] == pytest.approx(0.01)
    assert min(seen[:-1]) > 0.011, "and not before it"


def test_what_decays(drawn: Path) -> None:
    def groups(**more: Any) -> list[tuple[int, float]]:
        made = loaded(drawn, **more)
        found = made.optimizer(made.model()).param_groups
        assert {group["momentum"] for group in found} == {0.9}
        assert {group["nesterov"] for group in found} == {more.get("recipe") == "fast"}
        return [(sum(p.numel() for p in group["params"]), group["weight_decay"]) for group in found]

    model = loaded(drawn).model()
    flat = sum(p.numel() for p in model.parameters() if p.ndim < 2)
    total = sum(p.numel() for p in model.parameters())
    assert groups() == [(total, 1e-4)]
    assert groups(recipe="fast") == [(total - flat, 5e-4), (flat, 0.0)]
    assert groups(decay=0.25) == [(total, 0.25)]
    assert groups(recipe="fast", decay=0.25) == [(total - flat, 0.25), (flat, 0.0)]
    large = groups(recipe="fast", image_size=65, images=32)
    assert [decay for _, decay in large] == [5e-5, 0.0]


def test_under_loss_scaling_no_fused_step_is_asked_for(drawn: Path) -> None:
    # It advances its momentum on the steps that are to be skipped, until everything is NaN.
    for precision, fused in (("fp16", False), ("bf16", True), ("fp32", True)):
        made = loaded(drawn, precision=precision)
        model = made.model()
        made.setting = replace(made.setting, device=torch.device("cuda"))
        (group,) = made.optimizer(model).param_groups
        assert bool(group["fused"]) == fused, precision


def test_the_mean_of_the_weights_is_evaluated_and_taken_off_again(drawn: Path) -> None:
    made = loaded(drawn, recipe="fast", epochs=1)
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


def test_of_a_short_epoch_the_weights_are_looked_at_as_well(drawn: Path) -> None:
    # Three steps in all, and the mean is taken every fourth: what was evaluated was the network of the start.
    kept: list[torch.Tensor] = []

    class Noted(Resnet):
        def _score(self, model: nn.Module) -> dict[str, float]:
            kept.append(model.fc.weight.detach().clone())  # type: ignore[union-attr, operator]
            return super()._score(model)

        def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
            kept.append(model.fc.weight.detach().clone())  # type: ignore[union-attr, operator]
            return super().optimizer(model)

    repeat(drawn, workload=Noted, recipe="fast", batch_size=128, epochs=3)
    start, *evaluated = kept
    assert len(evaluated) == 2
    assert all(not torch.equal(start, each) for each in evaluated)
