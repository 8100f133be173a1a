# SPDX-License-Identifier: Apache-2.0
"""On a GPU, too, a restart in the middle of an epoch changes no bit, where the GPU repeats its own sums."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests.train.checkpoint_parts import Trial, figures, plain
from tests.train.test_checkpoint_restart import SMALL, batches_of
from tests.train.train_parts import job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300), pytest.mark.filterwarnings("default")]


@pytest.fixture(autouse=True)
def _repeatable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("name", ["nt3", "p1b2", "p1b3", "resnet", "resnet, fast", "yolo"])
def test_losses_after_a_restart_are_those_without(name: str, precision: str, tmp_path: Path) -> None:
    workload, setting = SMALL[name](tmp_path)
    knobs: dict[str, Any] = {**setting.knobs, "precision": precision, "checkpoint_steps": 1}
    setting = replace(setting, device=torch.device("cuda"), knobs=knobs)
    workload(setting).prepare()
    asked = replace(job(seed=3), workload=workload, setting=setting, epochs=2, precision=precision)
    count = batches_of(asked)
    whole, lines = plain(asked)
    again, _ = plain(asked)
    if again.metrics != whole.metrics:
        pytest.skip(f"{name} does not repeat itself on this device: there is nothing to compare with")
    trial = Trial(tmp_path / "trial", steps=1)
    trial.crash(asked, after=3)
    trial.crash(asked, after=count - 2 + 3)
    repeat = trial.attempt(asked)
    assert [words.partition(":")[0].split()[:4] for words in trial.said] == [
        ["repeat", "1", "goes", "on"]
    ] * 2
    assert figures(trial.lines) == figures(lines)
    assert repeat.metrics == whole.metrics
    assert (repeat.samples, repeat.skipped_steps) == (whole.samples, whole.skipped_steps)
