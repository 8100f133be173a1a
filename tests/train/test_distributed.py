# SPDX-License-Identifier: Apache-2.0
"""Workers that train together, as processes of their own: the same figures as one, and an end in words."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from joulelab.errors import TrialError
from joulelab.launch.local import Local
from joulelab.records import claim, ranks, store
from joulelab.records.layout import TrialFolder
from joulelab.records.trial import Result, TrialSpec
from joulelab.study.attempt import attempt
from joulelab.train.distributed import agree, join
from joulelab.train.ranks import Ranks
from tests.train.train_parts import KNOBS

ROOT = Path(__file__).parents[2]
SMALL: dict[str, Any] = {"scale": 0.01, "recipe": "paper", "data": ""}


def train(
    path: Path, workload: str, *, parameters: dict[str, Any] | None = None, **knobs: Any
) -> TrialFolder:
    """One trial by the launcher, whatever comes of it."""
    own = workload if ":" not in workload else f"tests.train.rank_parts{workload}"
    usual = {} if ":" not in workload else KNOBS
    path.mkdir(parents=True)
    folder = TrialFolder(path)
    asked = TrialSpec(
        workload=own, parameters=parameters or {}, knobs={**usual, **knobs}, devices=("estimate",)
    )
    store.write_json(folder.spec, asked)
    attempt(folder, launcher=Local())
    assert not claim.is_alive(folder)
    return folder


def result(folder: TrialFolder) -> Result:
    assert folder.done.exists(), folder.log.read_text()
    return store.read_json(folder.result, Result)


def losses(folder: TrialFolder) -> list[float]:
    return [line[name] for line in store.read_lines(folder.metrics) for name in ("loss", "val_loss")]


def failure(folder: TrialFolder) -> tuple[str, str]:
    assert not folder.done.exists()
    found = store.read_json(folder.failed, dict)
    return found["state"], found["reason"]


def test_dealt_out_rows_train_as_one_worker_with_a_batch_as_large(weird_tmp_path: Path) -> None:
    both = train(weird_tmp_path / "both", ":Dealt", workers=2, batch_size=4)
    alone = train(weird_tmp_path / "alone", ":Dealt", batch_size=8)
    assert losses(both) == pytest.approx(losses(alone), abs=1e-6)
    assert result(both).repeats[0].samples == result(alone).repeats[0].samples == 3 * 40
    assert result(both).repeats[0].epochs == 3


def test_batches_left_over_in_an_epoch_are_averaged_too(tmp_path: Path) -> None:
    # Five batches a worker, two to a step: the last step of an epoch has one.
    both = train(tmp_path / "both", ":Dealt", workers=2, batch_size=4, accumulate=2)
    alone = train(tmp_path / "alone", ":Dealt", batch_size=8, accumulate=2)
    assert losses(both) == pytest.approx(losses(alone), abs=1e-6)


@pytest.mark.parametrize("rate_rule", ["linear", "noise"])
def test_emulated_workers_train_as_real_ones(tmp_path: Path, rate_rule: str) -> None:
    how: dict[str, Any] = {
        "workers": 2,
        "sharing": "partition",
        "epochs": 4,
        "rate_rule": rate_rule,
        "learning_rate": 0.2,
    }
    real = train(tmp_path / "real", ":Dealt", **how)
    alike = train(tmp_path / "alike", ":Dealt", **how, emulated=True)
    assert losses(real) == pytest.approx(losses(alike), abs=1e-6)
    lines = [store.read_lines(folder.metrics)[-1] for folder in (real, alike)]
    assert all(("noise_scale" in line) == (rate_rule == "noise") for line in lines)
    assert lines[0].get("noise_scale", 0.0) == pytest.approx(lines[1].get("noise_scale", 0.0), rel=1e-4)
    assert [result(folder).repeats[0].epochs for folder in (real, alike)] == [2, 2]
    assert [result(folder).repeats[0].samples for folder in (real, alike)] == [160, 160]


def test_a_benchmark_trains_alike_with_one_worker_and_two(tmp_path: Path) -> None:
    how: dict[str, Any] = {"parameters": SMALL, "epochs": 2, "precision": "fp64"}
    both = train(tmp_path / "both", "p1b1", **how, workers=2, batch_size=50)
    alone = train(tmp_path / "alone", "p1b1", **how, batch_size=100)
    assert losses(both) == pytest.approx(losses(alone), rel=1e-9)


def test_each_worker_has_a_record_and_the_trial_has_one(tmp_path: Path) -> None:
    folder = train(tmp_path / "trial", ":Dealt", workers=2)
    first, second = ranks.read(folder)
    assert (first.rank, second.rank) == (0, 1)
    assert (first.state, second.state) == ("done", "done")
    assert first.pid != second.pid
    assert second.repeats[0].phases.keys() >= {"load", "train", "evaluate"}
    assert len(store.read_lines(folder.metrics)) == 3, "one line an epoch, not one a worker"
    windows = {line.get("rank") for line in store.read_lines(folder.windows)}
    assert {0, 1} <= windows


def test_a_worker_that_fails_is_named_with_its_reason(tmp_path: Path) -> None:
    state, reason = failure(train(tmp_path / "trial", ":Failing", workers=2))
    assert state == "failed"
    assert "worker 1 of 2" in reason
    assert "ValueError: row 7 of the file is torn" in reason


@pytest.mark.parametrize("workload", [":Killed", ":FirstKilled"])
def test_a_worker_that_is_killed_ends_the_trial_soon(tmp_path: Path, workload: str) -> None:
    began_s = time.monotonic()
    state, reason = failure(train(tmp_path / "trial", workload, workers=2))
    assert time.monotonic() - began_s < 60.0
    assert state in ("failed", "interrupted")
    assert reason


def test_one_loss_that_is_not_finite_ends_the_training_of_all_at_one_step(tmp_path: Path) -> None:
    found = result(train(tmp_path / "trial", ":NotFinite", workers=2, epochs=4))
    assert not found.valid
    assert found.repeats[0].epochs == 2
    assert "another worker's loss was not finite" in found.reason


def test_as_many_processes_as_workers_or_none() -> None:
    with pytest.raises(TrialError, match="workers = 4, and 1 process was started"):
        join({"workers": 4}, {})
    with pytest.raises(TrialError, match="workers = 1, and 2 processes were started"):
        join({}, {"WORLD_SIZE": "2", "RANK": "0"})
    with pytest.raises(TrialError, match="MASTER_ADDR, MASTER_PORT not set"):
        join({"workers": 2}, {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"})
    assert join({"workers": 4, "emulated": True}, {}).count == 1


def test_workers_that_are_asked_to_stop_do_and_say_so(tmp_path: Path) -> None:
    path = tmp_path / "trial"
    path.mkdir()
    knobs = {**KNOBS, "workers": 2}
    store.write_json(
        TrialFolder(path).spec, TrialSpec(workload="tests.train.rank_parts:Endless", knobs=knobs)
    )
    code = f"""
from pathlib import Path
from joulelab.launch.local import Local
from joulelab.records.layout import TrialFolder
from joulelab.study.attempt import attempt
attempt(TrialFolder(Path({str(path)!r})), launcher=Local())
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.DEVNULL) as runner:
        until_s = time.monotonic() + 60.0
        while len(list((path / "data").glob("trains-*"))) < 2 and time.monotonic() < until_s:
            time.sleep(0.05)
        runner.send_signal(signal.SIGTERM)
        runner.wait(60.0)
    state, reason = failure(TrialFolder(path))
    assert (state, reason) == ("interrupted", "stopped by SIGTERM")
    assert {record.state for record in ranks.read(TrialFolder(path))} == {"interrupted"}


def test_workers_that_see_other_files_are_refused(tmp_path: Path) -> None:
    state, reason = failure(train(tmp_path / "trial", ":Unlike", workers=2))
    assert state == "failed"
    assert "the workers differ in their data" in reason
    assert "a.csv of 100 bytes" in reason
    assert "a.csv of 101 bytes" in reason


def test_workers_with_other_software_are_refused() -> None:
    class Two(Ranks):
        count = 2

        def texts(self, text: str) -> list[str]:
            return [text, "torch 1.0"]

    words = r"differ in software: the first has torch 2\.6, worker 1 has torch 1\.0"
    with pytest.raises(TrialError, match=words):
        agree(Two(), "torch 2.6", what="software")
    agree(Ranks(), "torch 2.6", what="software")


def test_a_worker_that_ends_before_they_meet_ends_the_trial_within_a_minute(tmp_path: Path) -> None:
    path = tmp_path / "trial"
    path.mkdir()
    folder = TrialFolder(path)
    knobs = {**KNOBS, "workers": 2}
    store.write_json(folder.spec, TrialSpec(workload="tests.train.rank_parts:Dealt", knobs=knobs))
    launcher = Local()
    launcher.module = "tests.train.early"
    began_s = time.monotonic()
    attempt(folder, launcher=launcher)
    assert time.monotonic() - began_s < 60.0
    assert failure(folder)[1]


def test_a_port_in_use_is_said() -> None:
    with socket.create_server(("localhost", 0)) as taken:
        code = """
import os
from joulelab.errors import TrialError
from joulelab.train.distributed import agree, join
from joulelab.train.ranks import Ranks
try:
    join({"workers": 2})
except TrialError as error:
    print(error)
os._exit(0)
"""
        there = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
        there |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(taken.getsockname()[1])}
        done = subprocess.run(
            [sys.executable, "-u", "-c", code],
            env={**os.environ, **there}, capture_output=True, text=True, timeout=120, check=True, cwd=ROOT,
        )  # fmt: skip
    assert "the workers did not find each other at localhost:" in done.stdout
    assert "no other job uses that port" in done.stdout
