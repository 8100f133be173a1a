# SPDX-License-Identifier: Apache-2.0
"""The detector trains through the loop, in every format, and learns on a stand-in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from joulelab.errors import InputError
from joulelab.train.loop import run_repeat
from joulelab.train.precision import PRECISIONS
from joulelab.workloads import RECIPES
from joulelab.workloads.workload import Setting
from joulelab.workloads.yolo import Yolo
from tests.train.train_parts import FakeMeter, job
from tests.workloads.candle_parts import parameters

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.records.trial import Repeat

SMALL: dict[str, Any] = {"size": "n", "scale": 0.002, "classes": 2, "image_size": 64}


def setting(root: Path, *, precision: str = "fp32", **more: Any) -> Setting:
    recipe = RECIPES["yolo"]
    given = {p.name: p.default for p in recipe.parameters} | SMALL
    names = set(given)
    given |= {name: value for name, value in more.items() if name in names}
    knobs = {**recipe.knobs, "batch_size": 8, "epochs": 1, "precision": precision, "threads": 1}
    knobs |= {name: value for name, value in more.items() if name not in names}
    return Setting(parameters=given, knobs=knobs, data=root, dtype=PRECISIONS[precision].dtype)


def loaded(root: Path, **more: Any) -> Yolo:
    made = Yolo(setting(root, **more))
    made.prepare()
    made.load()
    return made


def repeat(of: Setting, *, precision: str, seed: int = 1) -> tuple[Repeat, list[dict[str, Any]]]:
    Yolo(of).prepare()
    lines: list[dict[str, Any]] = []
    one = replace(
        job(seed=seed, precision=precision), workload=Yolo, setting=of, epochs=int(of.knobs["epochs"])
    )
    done = run_repeat(one, meter=FakeMeter(), on_epoch=lines.append, on_progress=lambda step: None)
    return done, lines


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("yolo")


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
def test_it_trains_through_the_loop(data: Path, precision: str) -> None:
    done, lines = repeat(setting(data, precision=precision, batch_size=16), precision=precision)
    assert done.valid, done.reason
    assert set(done.metrics) == {"loss", *Yolo.metrics, "map50", "map"}
    assert 0 < done.metrics["box_loss"] < 1
    assert set(lines[0]) >= {"map50", "map", "box_loss"}
    made = loaded(data)
    assert done.samples == len(made.train_rows)


def test_under_fp16_the_loss_is_what_it_is_in_fp32(data: Path) -> None:
    made = loaded(data)
    torch.manual_seed(0)
    model = made.model()
    batch = next(iter(made.batches(1, torch.Generator().manual_seed(0))))
    whole = made.loss(model, batch).loss.detach()
    assert float(made.loss(model, made.place(batch)).loss.detach()) == float(whole)
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast("cpu", dtype):
            half = made.loss(model, batch).loss
        assert half.dtype == torch.float32
        assert float(half.detach()) == pytest.approx(float(whole), rel=0.03)


def test_the_seed_decides_the_losses(data: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more of them sum in another order
    try:
        of = setting(data, batch_size=16)
        runs = [repeat(of, precision="fp32", seed=seed)[0].metrics for seed in (1, 1, 2)]
    finally:
        torch.set_num_threads(threads)
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_the_averaged_weights_are_evaluated(data: Path) -> None:
    made = loaded(data)
    torch.manual_seed(0)
    model = made.model()
    optimizer = made.optimizer(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(float("nan"))  # the trained ones are not looked at
        assert made.evaluate(model.eval()) == pytest.approx({"map50": 0.0, "map": 0.0}, abs=0.05)
    made.on_step_end(model, optimizer, step=1)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 - 0.09 / 100)
    assert optimizer.param_groups[1]["lr"] == pytest.approx(0.01 / 100)
    assert not next(made._average.model.parameters()).isfinite().all(), "and it follows them"


def test_decay_grows_with_what_makes_a_step(data: Path) -> None:
    for more, want in (({"batch_size": 512}, 4e-3), ({"batch_size": 16, "accumulate": 4}, 5e-4)):
        made = loaded(data, **more)
        assert made.optimizer(made.model()).param_groups[1]["weight_decay"] == pytest.approx(want)


def test_ranks_share_the_tiles_out(data: Path) -> None:
    sizes = []
    for rank in range(2):
        of = setting(data)
        made = Yolo(Setting(parameters=of.parameters, knobs=of.knobs, data=of.data, rank=rank, ranks=2))
        made.load()
        made.optimizer(made.model())
        given = made.batches(1, torch.Generator().manual_seed(0))
        batches = [made.place(batch) for batch in given]
        sizes.append([len(batch.pictures) for batch in batches])
        model = made.model()
        one = made.loss(model, batches[0])
        assert one.samples == 8
        terms = sum(float(one.metrics[name]) for name in Yolo.metrics)
        assert float(one.loss.detach()) == pytest.approx(2 * 8 * terms, rel=1e-4), "times the ranks"
    assert sizes[0] == sizes[1]
    assert sum(sizes[0]) == len(made.train_rows) // 2


def test_batches_that_make_a_step_are_added_up(data: Path) -> None:
    one, two = loaded(data), loaded(data, accumulate=2, epochs=10_000)
    torch.manual_seed(0)
    model = one.model()
    batch = next(iter(one.batches(1, torch.Generator().manual_seed(0))))
    # The loop averages the batches of a step.
    assert float(two.loss(model, batch).loss.detach()) == pytest.approx(
        2 * float(one.loss(model, batch).loss.detach()), rel=1e-5
    )
    optimizer = two.optimizer(two.model())
    two.on_step_end(model, optimizer, step=3)
    assert optimizer.param_groups[1]["lr"] == pytest.approx(0.01 * 6 / 100, rel=0.01), "rates go by batches"


def test_inference_looks_at_every_held_out_tile(data: Path) -> None:
    made = loaded(data)
    with torch.no_grad():
        assert made.infer(made.model().eval()) == len(made.val_rows)


def test_tiles_on_the_device_are_trained_on_and_not_evaluated(tmp_path: Path) -> None:
    of = setting(tmp_path, source="device", classes=0, scale=0.01)
    done, _ = repeat(of, precision="fp32")
    assert done.valid, done.reason
    assert done.samples == 20
    assert set(done.metrics) == {"loss", *Yolo.metrics}
    assert list(tmp_path.iterdir()) == [], "nothing is written"
    made = Yolo(of)
    made.load()
    assert parameters(made.model()) == 1_845_097, "60 classes"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"image_size": 100}, "image_size = 100 .* multiple of 32"),
        ({"source": "xview"}, "source = 'xview' and no data"),
        ({"source": "coco"}, "source = 'coco' and no data"),
        ({"data": "there"}, "source = 'stand-in' and data = 'there'"),
        ({"data": "there", "source": "device"}, "source = 'device' and data = 'there'"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=f"(?s){said}"):
        Yolo(setting(tmp_path, **more))


def test_a_folder_without_the_files_says_which(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for source, name in (("xview", "xView_train.geojson"), ("coco", "annotations/instances_train")):
        with pytest.raises(InputError, match=name):
            Yolo(setting(tmp_path, source=source, data=str(tmp_path / "empty"))).prepare()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_learns(tmp_path: Path) -> None:
    of = setting(
        tmp_path,
        scale=0.02,
        classes=3,
        augment="none",
        batch_size=16,
        epochs=9,
        learning_rate=0.02,
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        _, figures = repeat(of, precision="fp32")
    finally:
        torch.set_num_threads(threads)
    assert figures[0]["map50"] < 0.05, "at first it knows nothing"
    assert figures[-1]["map50"] > 0.3
    assert figures[-1]["map"] > 0.1
    assert figures[-1]["box_loss"] < 0.75 * figures[0]["box_loss"]
