# SPDX-License-Identifier: Apache-2.0
"""Every held-out picture counts once, whatever fills a batch; when that is looked at, and what it stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from joulelab.workloads.picture_augment import MEAN, STD
from joulelab.workloads.resnet import Resnet
from tests.workloads.resnet_parts import loaded, repeat

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("one_thread")


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
    drawn: Path,
    batch_size: int,
    size: int,
    mirrored: bool,  # noqa: FBT001
) -> None:
    more: dict[str, Any] = {"classes": 10, "images": 200, "batch_size": batch_size, "image_size": size}
    made = loaded(drawn, evaluate_mirrored=mirrored, **more)
    assert len(made.val) == 50
    torch.manual_seed(0)
    model = made.model().eval()
    with torch.no_grad():
        assert made.evaluate(model) == pytest.approx(direct(made, model, mirrored=mirrored), rel=1e-4)


def test_a_picture_may_be_looked_at_with_itself_shifted(drawn: Path) -> None:
    def sums(x: torch.Tensor) -> torch.Tensor:
        """Not linear, and other weights for other places: what is looked at is told by the result."""
        place = torch.arange(x[0].numel(), dtype=x.dtype).view(x.shape[1:])
        return (x * place).sum((1, 2, 3))[:, None] ** 2

    x = torch.randn(3, 3, 8, 8, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
    # Row k of the first is row k - 1 of the picture, of the second k + 1; beyond the border comes what lies
    # as far inside it.
    down, up = [1, 0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7, 6]
    beside = [x[:, :, which][:, :, :, which] for which in (down, up)]
    looked: list[torch.Tensor] = []

    def model(given: torch.Tensor) -> torch.Tensor:
        assert given.is_contiguous(memory_format=torch.channels_last)
        looked.append(given)
        return sums(given)

    made = loaded(drawn, evaluate_shifted=True)
    wanted = sums(x) / 2 + sums(beside[0]) / 4 + sums(beside[1]) / 4
    torch.testing.assert_close(made._logits(model, x), wanted)  # type: ignore[arg-type]
    assert len(looked) == 3
    made = loaded(drawn, evaluate_shifted=True, evaluate_mirrored=True)
    both = [(sums(part) + sums(part.flip(3))) / 2 for part in (x, *beside)]
    wanted = both[0] / 2 + both[1] / 4 + both[2] / 4
    torch.testing.assert_close(made._logits(model, x), wanted)  # type: ignore[arg-type]


def test_batches_of_an_evaluation_are_alike_and_not_larger_than_they_need(drawn: Path) -> None:
    for batch_size, shapes in ((7, [7] * 8), (50, [50]), (512, [50])):
        made = loaded(drawn, classes=10, images=200, batch_size=batch_size)
        found = list(made._held_out(made.val))
        assert [len(x) for x, _, _ in found] == shapes
        assert sum(int(known.sum()) for _, _, known in found) == 50


def test_fewer_than_five_classes_have_a_top_five_of_all(drawn: Path) -> None:
    done, _ = repeat(drawn, epochs=1, images=32)
    assert done.metrics["val_top5"] == 1.0


def test_while_its_rates_are_high_the_fast_recipe_does_not_look(drawn: Path) -> None:
    for recipe, looked in (("fast", [3, 4, 5]), ("imagenet", [1, 2, 3, 4, 5])):
        _, lines = repeat(drawn, recipe=recipe, epochs=5, images=32)
        assert [line["epoch"] for line in lines if "val_accuracy" in line] == looked


def test_from_where_on_it_looks_may_be_said(drawn: Path) -> None:
    for recipe, share, looked in (
        ("fast", 0.9, [5]),
        ("fast", 0.0, [1, 2, 3, 4, 5]),
        ("imagenet", 0.6, [3, 4, 5]),
    ):
        _, lines = repeat(drawn, recipe=recipe, evaluate_from=share, epochs=5, images=32)
        assert [line["epoch"] for line in lines if "val_accuracy" in line] == looked


@pytest.mark.parametrize("recipe", ["imagenet", "fast"])
def test_a_target_ends_the_training(drawn: Path, recipe: str) -> None:
    more: dict[str, Any] = {"recipe": recipe, "epochs": 6, "images": 64}
    done, lines = repeat(drawn, target="val_accuracy >= 0.1", **more)
    assert (done.reached, done.valid, done.target) == (True, True, "val_accuracy >= 0.1")
    first = 3 if recipe == "fast" else 1
    assert done.epochs == len(lines) == first, "at the first evaluation"
    done, _ = repeat(drawn, target="val_loss <= -1", **more)
    assert (done.reached, done.valid, done.epochs) == (False, True, 6)


def test_inference_is_one_pass_over_the_held_out_pictures(drawn: Path) -> None:
    seen: list[int] = []

    class Noted(Resnet):
        def _logits(self, model: nn.Module, x: torch.Tensor) -> torch.Tensor:
            assert not model.training
            seen.append(len(x))
            return super()._logits(model, x)

    more: dict[str, Any] = {"classes": 10, "images": 200, "task": "inference", "epochs": 3}
    done, _ = repeat(drawn, workload=Noted, **more)
    assert (done.task, done.samples, done.epochs, done.valid) == ("inference", 150, 3, True)
    assert seen == [32, 18] * 3, "none is looked at twice to fill a batch up"


def test_what_is_not_trained_does_not_begin_as_nought(drawn: Path) -> None:
    for task, empty in (("train", True), ("inference", False)):
        model = loaded(drawn, recipe="fast", task=task).model()
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
