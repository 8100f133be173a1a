# SPDX-License-Identifier: Apache-2.0
"""A trial whose worker is killed at any moment ends with the same figures, and says what that has cost."""

from __future__ import annotations

import random
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest

from joulelab.launch.local import Local
from joulelab.records import attempts, store
from joulelab.records.layout import TrialFolder
from joulelab.records.trial import Result, TrialSpec
from joulelab.study.attempt import attempt
from joulelab.train.worker import run_trial
from tests.train.checkpoint_parts import figures
from tests.train.train_parts import KNOBS, FakeMeter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from joulelab.launch.progress import Step
    from joulelab.records.measurement import Measurement
    from joulelab.records.trial import Repeat

SPAN_S = 1.0  # about what the training takes, from the first word of the worker
SPEC = TrialSpec(
    workload="tests.train.checkpoint_parts:Slow",
    knobs={**KNOBS, "batch_size": 4, "epochs": 5, "checkpoint_steps": 2},
    repeats=2,
    devices=("estimate",),
)


class Killing(Local):
    """Kills its worker some time after its first word."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._timer: threading.Timer | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def _start(self, folder: TrialFolder, **more: Any) -> subprocess.Popen[bytes]:
        self._process = super()._start(folder, **more)
        return self._process

    def heard(self, step: Step) -> None:
        if self._timer is None and self._process is not None:
            self._timer = threading.Timer(self._after_s, self._process.kill)
            self._timer.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()


def planned(path: Path) -> TrialFolder:
    folder = TrialFolder(path)
    path.mkdir()
    store.write_json(folder.spec, SPEC)
    return folder


def kill(folder: TrialFolder, after_s: float) -> None:
    """An attempt that is killed after so long, unless it was done by then."""
    launcher = Killing(after_s)
    attempt(folder, launcher=launcher, on_step=launcher.heard)
    launcher.stop()


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> TrialFolder:
    """The same trial, left alone."""
    folder = planned(tmp_path_factory.mktemp("reference") / "trial")
    assert run_trial(folder, on_progress=lambda step: None, open_meter=FakeMeter) == 0  # type: ignore[arg-type]
    return folder


def drawn(folder: TrialFolder, name: str) -> tuple[float, float]:
    """Joules and seconds of all windows of this name, in all attempts: every sampler outlived its worker."""
    places = [attempts.earlier(folder, n + 1) for n in range(attempts.count(folder))]
    lines = [
        line
        for place in [*places, folder.path]
        for line in store.read_lines(TrialFolder(place).windows)
        if line["name"] == name
    ]
    return sum(line["energy_j"] for line in lines), sum(line["time_s"] for line in lines)


def ends_right(folder: TrialFolder, reference: TrialFolder, moments_s: Sequence[float]) -> Result:
    for moment_s in moments_s:
        kill(folder, moment_s)
    attempt(folder, launcher=Local())
    assert folder.done.exists(), folder.log.read_text()
    done, wanted = (store.read_json(each.result, Result) for each in (folder, reference))
    assert learnt(done.repeats) == learnt(wanted.repeats)
    lines = [figures(store.read_lines(each.metrics)) for each in (folder, reference)]
    assert lines[0] == lines[1], "a line for each epoch, once, in order, to the bit"
    kept = [repeat.total for repeat in done.repeats]
    lost = [repeat.lost for repeat in done.repeats if repeat.lost is not None]
    parts = [*kept, *lost]
    assert not any("not known" in flag for part in parts for flag in part.flags), parts
    assert spent(parts) == pytest.approx(drawn(folder, "repeat"), rel=1e-6)
    both = [done.total(), *([] if done.lost is None else [done.lost])]
    assert spent(both) == pytest.approx(drawn(folder, "trial"), rel=1e-6)
    assert done.restarts == sum(repeat.restarts for repeat in done.repeats)
    assert not folder.checkpoint.exists(), "nothing goes on from here"
    return done


def spent(parts: Sequence[Measurement]) -> tuple[float, float]:
    return sum(part.energy_j or 0.0 for part in parts), sum(part.time_s for part in parts)


def learnt(repeats: Sequence[Repeat]) -> list[Any]:
    return [(r.index, r.seed, r.metrics, r.samples, r.epochs, r.skipped_steps, r.valid) for r in repeats]


def test_three_moments(tmp_path: Path, reference: TrialFolder) -> None:
    # At the first word, in the first repeat, in whatever comes then.
    done = ends_right(planned(tmp_path / "trial"), reference, [0.0, 0.35 * SPAN_S, 0.35 * SPAN_S])
    assert done.restarts >= 2
    assert done.lost is not None
    assert done.lost.energy_j is not None
    assert done.lost.energy_j > 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_thirty_moments(tmp_path: Path, reference: TrialFolder) -> None:
    chance = random.Random(20)
    for number in range(10):
        moments_s = [chance.uniform(0.0, SPAN_S) for _ in range(3)]
        ends_right(planned(tmp_path / str(number)), reference, moments_s)
