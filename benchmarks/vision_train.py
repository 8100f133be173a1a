# SPDX-License-Identifier: Apache-2.0
"""One training of the vision benchmarks as a row: its curve, and what it had cost after each epoch."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vision_parts import Kept, knobs_on, repeat, setting, settled

from joulelab.knobs import KNOBS
from joulelab.records import plugin
from joulelab.workloads import RECIPES
from joulelab.workloads.resnet import Resnet

if TYPE_CHECKING:
    from joulelab import Meter

NETWORK = {"depth": 18, "stem": "cifar", "image_size": 32}
TODAY = {"precision": "bf16", "memory_format": "channels_last"}
FAST = {"recipe": "fast", "batch_size": 512, "learning_rate": 0.2, "evaluate_mirrored": True, **TODAY}


def train(
    asked: Mapping[str, Any],
    *,
    meter: Meter,
    seed: int,
    workload: type[Resnet] = Resnet,
    after: Callable[[], Mapping[str, Any]] = dict,
    root: Path = Path("unused"),
) -> dict[str, Any]:
    """One repeat from fresh weights with its knobs on; `after` is asked before they go back, unmeasured.

    `root` is where pictures are drawn, if no folder of them is asked for.
    """
    made = replace(setting(**asked), data=root)
    kept = Kept(meter)
    curve: list[float | None] = []
    began_s = time.monotonic()
    with knobs_on(made):
        done = repeat(
            made,
            meter=kept,
            seed=seed,
            workload=workload,
            on_epoch=lambda line: curve.append(line.get("val_accuracy")),
        )
        more = after()
    phase = done.phases["train"]
    row = {
        "seed": seed,
        "batch_size": made.knobs["batch_size"],
        "epochs_asked": made.knobs["epochs"],
        "epochs": done.epochs,
        "valid": done.valid,
        "reason": done.reason,
        "samples": done.samples,
        "energy_j": done.total.energy_j,
        "energy_error_j": done.total.energy_error_j,
        "time_s": done.total.time_s,
        "wall_s": time.monotonic() - began_s,
        "train_j_per_image": phase.energy_j / done.samples if phase.energy_j else None,
        "images_per_s": done.samples / phase.time_s,
        "waiting_share": (done.waiting_s or 0.0) / phase.time_s,
        "curve": curve,
        "epoch_j": [window.energy_j for window in kept.windows["epoch"]],
        "epoch_s": [window.time_s for window in kept.windows["epoch"]],
        **more,
    }
    settled()
    return row


# ---- what is given on the command line ---------------------------------------------------------------------


def pairs(text: str) -> dict[str, Any]:
    """`key=value,key=value` as parameters and knobs of ResNet, each of which must be legal."""
    recipe = RECIPES["resnet"]
    found: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            raise SystemExit(f"'{part}' is not key=value")
        if name in recipe.knobs:
            found[name] = plugin.load(KNOBS, name, what="knob")().check(_scalar(value))
        else:
            found[name] = recipe.parameter(name).check(_scalar(value))
    return found


def _scalar(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def in_words(asked: Mapping[str, Any]) -> str:
    """As `pairs` reads it."""
    given = {name: str(value).lower() if isinstance(value, bool) else value for name, value in asked.items()}
    return ",".join(f"{name}={value}" for name, value in given.items())


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def unpacked(data: Path, to: Path) -> Path:
    """The folder that holds train and val; a zip is unpacked first."""
    if data.is_file():
        with zipfile.ZipFile(data) as packed:
            packed.extractall(to)
        data = to
    for folder in (data, *sorted(data.glob("*"))):
        if (folder / "train").is_dir():
            return folder
    raise SystemExit(f"{data}: no folder train below it")
