# SPDX-License-Identifier: Apache-2.0
"""Several workers that save themselves: stopped or killed, they go on together, to the bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from joulelab.launch.local import Local
from joulelab.records import ranks, store
from joulelab.records.layout import TrialFolder
from joulelab.records.trial import Result, TrialSpec
from joulelab.study.attempt import attempt
from tests.train.train_parts import KNOBS

ROOT = Path(__file__).parents[2]
HOW: dict[str, Any] = {**KNOBS, "workers": 2, "epochs": 6, "sharing": "partition", "checkpoint_steps": 3}
PROGRAM = """
import sys
from pathlib import Path
from random import Random
from joulelab.launch.local import Local
from joulelab.records.layout import TrialFolder
from joulelab.study.attempt import attempt
attempt(TrialFolder(Path(sys.argv[1])), launcher=Local())
"""


def planned(path: Path, workload: str, **knobs: Any) -> TrialFolder:
    path.mkdir(parents=True)
    folder = TrialFolder(path)
    asked = TrialSpec(
        workload=f"tests.train.rank_parts:{workload}", knobs={**HOW, **knobs}, devices=("estimate",)
    )
    store.write_json(folder.spec, asked)
    return folder


def figures(folder: TrialFolder) -> list[tuple[Any, ...]]:
    assert folder.done.exists(), folder.log.read_text()
    return [
        (line["epoch"], line["loss"], line["val_loss"], line.get("noise_scale"))
        for line in store.read_lines(folder.metrics)
    ]


def interrupted(folder: TrialFolder, how: signal.Signals, rank: int | None) -> None:
    """Start it, and end it once it has saved itself: all of it, or one worker."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder.path)], cwd=ROOT) as runner:
        until_s = time.monotonic() + 60.0
        while not list(folder.checkpoint.glob("*/rank-1.json")) and time.monotonic() < until_s:
            time.sleep(0.02)
        os.kill(runner.pid if rank is None else _pid(folder, rank), how)
        runner.wait(90.0)
    assert not folder.done.exists(), "it ended before it was stopped"


def _pid(folder: TrialFolder, rank: int) -> int:
    found = subprocess.run(
        ["pgrep", "-f", f"joulelab.train.worker {folder.path}"], capture_output=True, text=True, check=True
    )
    for pid in map(int, found.stdout.split()):
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if f"RANK={rank}".encode() in environment:
            return pid
    raise AssertionError("no such worker")


@pytest.mark.parametrize(
    ("how", "rank"),
    [(signal.SIGTERM, None), (signal.SIGKILL, 1)],
    ids=["asked to stop", "one killed"],
)
def test_workers_go_on_together_to_the_bit(tmp_path: Path, how: signal.Signals, rank: int | None) -> None:
    how_fast: dict[str, Any] = {"rate_rule": "linear", "warmup_updates": 10}
    plain = planned(tmp_path / "plain", "Slow", **how_fast)
    attempt(plain, launcher=Local())
    wanted = figures(plain)
    folder = planned(tmp_path / "again", "Slow", **how_fast)
    interrupted(folder, how, rank)
    attempt(folder, launcher=Local())
    assert figures(folder) == wanted
    repeat = store.read_json(folder.result, Result).repeats[0]
    assert repeat.restarts == 1
    assert repeat.lost is not None
    assert repeat.total.energy_j is not None
    assert {record.state for record in ranks.read(folder)} == {"done"}


def test_emulated_workers_go_on_to_the_bit(tmp_path: Path) -> None:
    # With the rule whose state is largest. Real workers add lengths up in another order in the first step
    # after a restart, so there its figures agree to nine digits and not to the bit.
    plain = planned(tmp_path / "plain", "Slow", emulated=True, rate_rule="noise")
    attempt(plain, launcher=Local())
    folder = planned(tmp_path / "again", "Slow", emulated=True, rate_rule="noise")
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder.path)], cwd=ROOT) as runner:
        until_s = time.monotonic() + 60.0
        while not list(folder.checkpoint.glob("*/rank-0.json")) and time.monotonic() < until_s:
            time.sleep(0.02)
        runner.send_signal(signal.SIGTERM)
        runner.wait(60.0)
    assert not folder.done.exists()
    attempt(folder, launcher=Local())
    assert figures(folder) == figures(plain)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_one_worker_killed_at_thirty_moments(tmp_path: Path) -> None:
    how: dict[str, Any] = {"epochs": 300, "checkpoint_steps": 2, "rate_rule": "linear"}
    plain = planned(tmp_path / "plain", "Slow", **how)
    attempt(plain, launcher=Local())
    folder = planned(tmp_path / "again", "Slow", **how)
    random = Random(0)
    killed = 0
    for _ in range(30):
        with subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder.path)], cwd=ROOT) as runner:
            # From before they meet to the middle of a step: a start takes about four seconds.
            time.sleep(random.uniform(1.5, 6.5))
            rank = random.randrange(2)
            pids = [pid for pid in [_found(folder, rank)] if pid]
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                killed += 1
            runner.wait(120.0)
        if folder.done.exists():
            break
    if not folder.done.exists():
        attempt(folder, launcher=Local())
    assert figures(folder) == figures(plain)
    assert killed >= 20
    repeat = store.read_json(folder.result, Result).repeats[0]
    assert repeat.restarts > 0
    assert repeat.lost is not None


def _found(folder: TrialFolder, rank: int) -> int:
    try:
        return _pid(folder, rank)
    except (AssertionError, subprocess.CalledProcessError, OSError):
        return 0  # not there yet
