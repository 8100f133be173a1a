# SPDX-License-Identifier: Apache-2.0
"""The inline launcher calls the worker's function, and tells a stop from a failure."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from joulelab.launch.inline import Inline
from joulelab.launch.launcher import Stopped
from joulelab.launch.progress import Step
from joulelab.records.layout import TrialFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def worker(monkeypatch: pytest.MonkeyPatch, exit_code: int) -> None:
    """A stand-in for the worker's module, which would bring the training framework."""

    def run_trial(folder: TrialFolder, *, on_progress: Callable[[dict[str, Any]], None]) -> int:
        on_progress({"repeat": 1, "of": 1, "phase": folder.path.name, "not_known_here": 1})
        return exit_code

    module = ModuleType("joulelab.train.worker")
    vars(module)["run_trial"] = run_trial
    monkeypatch.setitem(sys.modules, "joulelab.train.worker", module)


@pytest.mark.parametrize("exit_code", [0, 1])
def test_steps_and_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exit_code: int) -> None:
    worker(monkeypatch, exit_code)
    steps: list[Step] = []
    assert Inline().run(TrialFolder(tmp_path / "load"), on_progress=steps.append) == exit_code
    assert steps == [Step(repeat=1, of=1, phase="load")]


def test_a_stop_is_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker(monkeypatch, 130)
    with pytest.raises(Stopped) as caught:
        Inline().run(TrialFolder(tmp_path))
    assert caught.value.number == 2
