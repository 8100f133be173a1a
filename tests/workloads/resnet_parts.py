# SPDX-License-Identifier: Apache-2.0
"""A residual network that learns in a second, and one repeat of it through the loop."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from joulelab.train.inference import run_inference
from joulelab.train.loop import run_repeat
from joulelab.train.precision import PRECISIONS
from joulelab.workloads import RECIPES
from joulelab.workloads.resnet import Resnet
from joulelab.workloads.workload import Setting
from tests.train.train_parts import FakeMeter, job

if TYPE_CHECKING:
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
