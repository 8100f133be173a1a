# SPDX-License-Identifier: Apache-2.0
"""After a restart in the middle of an epoch the losses are those of a training that was never stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from joulelab.workloads.nt3 import NT3
from joulelab.workloads.p1b1 import P1B1
from joulelab.workloads.p1b2 import P1B2
from joulelab.workloads.p1b3 import P1B3
from joulelab.workloads.resnet import Resnet
from joulelab.workloads.yolo import Yolo
from tests.train.checkpoint_parts import Trial, figures, plain
from tests.train.train_parts import job
from tests.workloads import candle_parts, resnet_parts, test_yolo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from joulelab.train.job import Job
    from joulelab.workloads.workload import Setting, Workload

SMALL: dict[str, Callable[[Path], tuple[type[Workload], Setting]]] = {
    "nt3": lambda root: (NT3, _candle(root, scale=0.003, batch_size=100)),
    "nt3, modern": lambda root: (NT3, _candle(root, scale=0.003, batch_size=100, recipe="modern")),
    "p1b1": lambda root: (P1B1, _candle(root, scale=0.003, batch_size=300)),
    "p1b1, modern": lambda root: (P1B1, _candle(root, scale=0.003, batch_size=300, recipe="modern")),
    "p1b2": lambda root: (P1B2, _candle(root, scale=0.005, batch_size=300)),
    "p1b2, modern": lambda root: (P1B2, _candle(root, scale=0.005, batch_size=300, recipe="modern")),
    "p1b3": lambda root: (P1B3, _candle(root, scale=0.02, batch_size=100)),
    "p1b3, modern": lambda root: (P1B3, _candle(root, scale=0.02, batch_size=100, recipe="modern")),
    "resnet": lambda root: (Resnet, resnet_parts.setting(root, batch_size=16, accumulate=2)),
    "resnet, fast": lambda root: (
        Resnet,
        resnet_parts.setting(root, batch_size=16, accumulate=2, recipe="fast"),
    ),
    "yolo": lambda root: (Yolo, test_yolo.setting(root, batch_size=4, epochs=2, accumulate=2)),
}


def _candle(root: Path, **more: Any) -> Setting:
    return candle_parts.setting(root, epochs=2, accumulate=2, **more)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more of them sum in another order
    yield
    torch.set_num_threads(threads)


def batches_of(asked: Job) -> int:
    """Of one epoch."""
    workload = asked.workload(asked.setting)
    workload.load()
    return sum(1 for _ in workload.batches(1, torch.Generator()))


@pytest.mark.parametrize("name", SMALL)
def test_losses_after_a_restart_are_those_without(name: str, data: Path, tmp_path: Path) -> None:
    workload, setting = SMALL[name](data)
    workload(setting).prepare()
    asked = replace(job(seed=3), workload=workload, setting=setting, epochs=2)
    count = batches_of(asked)
    assert count >= 4, "with fewer there is no middle"
    whole, lines = plain(asked)
    trial = Trial(tmp_path / "trial", steps=1)
    trial.crash(asked, after=3)  # in the first epoch, in the middle of a step
    trial.crash(asked, after=count - 2 + 3)  # counted from where it goes on: in the second epoch
    repeat = trial.attempt(asked)
    moves = -(-count // 2)
    assert trial.said == [
        "repeat 1 goes on from repeat-1-step-000000001: epoch 1, 2 batches done",
        f"repeat 1 goes on from repeat-1-step-{moves + 1:09d}: epoch 2, 2 batches done",
    ]
    assert figures(trial.lines) == figures(lines)
    assert repeat.metrics == whole.metrics
    assert (repeat.samples, repeat.epochs, repeat.skipped_steps) == (whole.samples, 2, whole.skipped_steps)
    assert repeat.restarts == 2
