# SPDX-License-Identifier: Apache-2.0
"""A trial from its folder to its folder, however it ends."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from joulelab.analysis.trials import trials
from joulelab.errors import InputError
from joulelab.records import store
from joulelab.records.layout import StudyFolder, TrialFolder
from joulelab.records.trial import Result, TrialSpec
from joulelab.report import table
from joulelab.train import ending, worker
from joulelab.train.worker import jobs, run_trial
from tests.train.train_parts import KNOBS, FakeMeter, Killed, Toy, job, setting

ROOT = Path(__file__).parents[2]


def spec(
    workload: str = "Toy", *, repeats: int = 2, warmup: int = 1, seed: int = 0, **knobs: Any
) -> TrialSpec:
    return TrialSpec(
        workload=f"tests.train.train_parts:{workload}",
        knobs={**KNOBS, **knobs},
        repeats=repeats,
        warmup=warmup,
        seed=seed,
    )


def planned(path: Path, asked: TrialSpec) -> TrialFolder:
    path.mkdir(parents=True)
    folder = TrialFolder(path)
    store.write_json(folder.spec, asked)
    return folder


def run(folder: TrialFolder) -> tuple[int, list[dict[str, Any]], FakeMeter]:
    made: list[FakeMeter] = []
    shown: list[dict[str, Any]] = []

    def open_meter(**settings: Any) -> FakeMeter:
        made.append(FakeMeter(**settings))
        return made[0]

    exit_code = run_trial(folder, on_progress=shown.append, open_meter=open_meter)  # type: ignore[arg-type]
    return exit_code, shown, made[0]


def result(folder: TrialFolder) -> Result:
    return store.read_json(folder.result, Result)


def failed(folder: TrialFolder) -> dict[str, Any]:
    return store.read_json(folder.failed, dict)


def test_a_trial_leaves_a_whole_record(weird_tmp_path: Path) -> None:
    folder = planned(weird_tmp_path / "trial", spec())
    exit_code, shown, meter = run(folder)
    assert exit_code == 0
    assert folder.done.exists()
    assert not folder.failed.exists()
    assert meter.closed
    assert meter.events[:3] == ["idle", "trial", "  repeat"], "idle power first"
    done = result(folder)
    assert (done.state, done.valid, done.exit_code, done.time_s, done.energy_j) == ("done", True, 0, 1.0, 2.0)
    assert [(r.index, r.warmup) for r in done.repeats] == [(1, True), (2, False), (3, False)]
    assert {name for r in done.repeats for name in r.phases} == {"load", "train", "evaluate"}
    host = store.read_json(folder.host, dict)
    assert host["idle_power_w"] is None
    assert host["idle"]["time_s"] == worker.IDLE_S
    assert host["devices"][0]["uid"] == "fake:0"
    assert host["problems"] == ["rapl: no permission; chmod a+r"]
    assert (host["torch_device"], host["torch_threads"]) == ("cpu", 1)
    lines = store.read_lines(folder.metrics)
    assert [(line["repeat"], line["warmup"], line["epoch"]) for line in lines] == [
        (repeat, repeat == 1, epoch) for repeat in (1, 2, 3) for epoch in (1, 2, 3)
    ]
    assert {step["repeat"] for step in shown} == {1, 2, 3}
    assert {step["of"] for step in shown} == {3}


def test_measured_seeds_do_not_depend_on_the_warm_up(tmp_path: Path) -> None:
    def seeds(warmup: int) -> list[tuple[int, bool]]:
        asked = spec(repeats=3, warmup=warmup, seed=10)
        return [(job.seed, job.warmup) for job in jobs(asked, workload=Toy, setting=setting())]

    assert seeds(0) == [(10, False), (11, False), (12, False)]
    assert seeds(2) == [(13, True), (14, True), *seeds(0)]


def test_repeats_differ_by_their_seeds_and_a_trial_can_be_repeated(tmp_path: Path) -> None:
    folders = [planned(tmp_path / name, spec(seed=4)) for name in "ab"]
    for folder in folders:
        run(folder)
    losses = [[repeat.metrics["loss"] for repeat in result(folder).repeats] for folder in folders]
    assert losses[0] == losses[1]
    assert len(set(losses[0])) == 3


def test_a_trial_that_does_not_learn_is_done_and_invalid(tmp_path: Path) -> None:
    folder = planned(tmp_path / "trial", spec("Diverging"))
    exit_code, _, _ = run(folder)
    assert exit_code == 0
    assert folder.done.exists()
    done = result(folder)
    assert (done.state, done.valid) == ("done", False)
    assert done.reason == "repeat 1: the loss was nan at step 8"
    assert len(done.repeats) == 1, "no joule is spent on the rest"


def test_fp16_steps_that_are_all_skipped_make_the_trial_invalid(tmp_path: Path) -> None:
    folder = planned(tmp_path / "trial", spec("Overflowing", precision="fp16", epochs=8))
    run(folder)
    assert not result(folder).valid
    assert "steps were skipped" in result(folder).reason


@pytest.mark.parametrize("task", ["train", "inference"])
def test_what_a_workload_says_is_heard_and_what_it_notes_stands_by_the_figures(
    tmp_path: Path, task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = planned(tmp_path / "trial", spec("Telling", task=task))
    _, shown, _ = run(folder)
    assert shown[0] == {"phase": "decoding: 0 of 2 images"}
    assert "decoding: 0 of 2 images\n" in capsys.readouterr().err, "which is the log"
    assert [repeat.total.flags for repeat in result(folder).repeats] == [("1 of 2 images is left out",)] * 3
    assert "note (1 of 1 trials): 1 of 2 images is left out" in table.text(store.load_records(tmp_path))


@pytest.mark.parametrize(
    ("workload", "precision", "state", "words"),
    [
        ("Overflowing", "fp16", "done", "steps were skipped"),
        ("Diverging", "fp16", "done", "the loss was nan"),
        ("Diverging", "fp32", "done", "the loss was nan"),
        ("Fused", "fp16", "failed", "hides skipped steps"),
    ],
)
def test_what_does_not_learn_has_no_energy_in_any_table(
    tmp_path: Path, workload: str, precision: str, state: str, words: str
) -> None:
    # Its steps are cheap: by joules alone it would be the best of its study.
    run(planned(tmp_path / "good", spec()))
    run(planned(tmp_path / "bad", spec(workload, precision=precision, epochs=20)))
    records = store.load_records(tmp_path)
    rows = {row["trial"]: row for row in trials(records).to_dicts()}
    assert rows["good"]["energy_j"] == 2.0
    bad = rows["bad"]
    assert (bad["state"], bool(bad["valid"]), bad["n"]) == (state, False, 0)
    assert words in bad["reason"]
    figures = (
        "energy_j",
        "energy_ci_j",
        "energy_error_j",
        "power_w",
        "j_per_sample",
        "to_target_j",
        "accuracy",
    )
    assert {name: bad[name] for name in figures} == dict.fromkeys(figures)
    (listed,) = (row for row in json.loads(table.to_json(records)) if row["trial"] == "bad")
    assert listed["energy_j"] is None
    joules = re.compile(r"\d [mkM]?J\b")
    for record in records:
        shown = table.text([record], width=160)
        assert bool(joules.search(shown)) == (record.folder.path.name == "good")
        assert (words in shown) == (record.folder.path.name == "bad")


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (
            "TooBig",
            "out of memory at batch_size = 8, and batch_size = 1 does not fit either: take a smaller "
            "network, or another precision",
        ),
        ("TooBigForFour", "out of memory at batch_size = 8: batch_size = 2 fits"),
        ("Wrong", "ValueError: a user's mistake"),
    ],
)
def test_a_failure_is_told_in_words(tmp_path: Path, workload: str, words: str) -> None:
    folder = planned(tmp_path / "trial", spec(workload))
    exit_code, _, meter = run(folder)
    assert exit_code == 1
    assert not folder.done.exists()
    assert failed(folder) == {"schema": 1, "state": "failed", "reason": words, "exit_code": 1}
    assert (result(folder).state, result(folder).valid, result(folder).reason) == ("failed", False, words)
    assert meter.closed


def test_where_no_batch_can_be_tried_half_of_it_is_the_advice() -> None:
    assert ending.too_large(None) == "out of memory"
    assert ending.too_large(job(batch_size=1)) == "out of memory"
    said = ending.too_large(job(batch_size=8, task="inference"))
    assert said == "out of memory at batch_size = 8: try batch_size = 4"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "full: free some space"),
        (OSError(errno.EDQUOT, "Quota", "/a/b.csv"), "full (writing /a/b.csv): free"),
        (OSError(errno.ENOENT, "No such file"), ""),
        (ValueError("full"), ""),
    ],
)
def test_a_full_disk_comes_with_its_cure(error: Exception, words: str) -> None:
    told = ending.out_of_room(error)
    assert words in told
    assert bool(told) == bool(words)


def test_what_the_machine_lacks_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine may have tf32")
    folder = planned(tmp_path / "trial", spec(precision="tf32"))
    assert run_trial(folder, on_progress=lambda step: None, open_meter=pytest.fail) == 1
    assert "'tf32' needs an NVIDIA GPU" in failed(folder)["reason"]
    assert not folder.result.exists()


def test_a_folder_without_a_spec_is_a_failure_in_words(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    assert run_trial(folder, on_progress=lambda step: None, open_meter=pytest.fail) == 1
    assert "spec.json does not exist" in failed(folder)["reason"]


def test_a_stop_keeps_what_was_measured_and_puts_back(tmp_path: Path) -> None:
    Killed.repeats = 0
    before = torch.get_num_threads()
    folder = planned(tmp_path / "trial", spec("Killed", threads=before + 1, repeats=3, warmup=0))
    exit_code, _, meter = run(folder)
    assert exit_code == 128 + signal.SIGTERM
    assert failed(folder)["state"] == "interrupted"
    assert not folder.done.exists()
    kept = result(folder)
    assert (kept.state, kept.valid, kept.reason) == ("interrupted", False, "stopped by SIGTERM")
    assert len(kept.repeats) == 1
    assert meter.closed
    assert torch.get_num_threads() == before


def test_a_stop_that_comes_when_all_is_done_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = ending.write

    def late(*arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        write(*arguments)

    monkeypatch.setattr(worker, "write", late)
    folder = planned(tmp_path / "trial", spec())
    exit_code, _, _ = run(folder)
    assert exit_code == 0
    assert folder.done.exists()
    assert result(folder).state == "done"


def test_stand_ins_are_shared_by_a_study(tmp_path: Path) -> None:
    study = StudyFolder(tmp_path / "study")
    assert worker._data(study.trial("a")) == worker._data(study.trial("b")) == study.data
    assert worker._data(TrialFolder(tmp_path / "alone")) == tmp_path / "alone" / "data"


def start(folder: TrialFolder, **more: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    command = [sys.executable, "-m", "joulelab.train.worker", str(folder.path)]
    return subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE, **more)


def test_the_process_tells_its_progress_and_ends_the_trial(tmp_path: Path) -> None:
    folder = planned(tmp_path / "trial", msgspec.structs.replace(spec(), devices=("estimate",)))
    with start(folder, stdout=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=50)
    assert process.returncode == 0, err
    steps = [json.loads(line)["progress"] for line in out.splitlines()]
    assert steps[0] == {"repeat": 1, "of": 3, "warmup": True, "epochs": 3, "phase": "load"}
    assert steps[-1]["phase"] == "end"
    done = result(folder)
    assert done.source == "estimated"
    assert done.energy_j is not None
    assert done.energy_j > 0
    assert sum(r.total.time_s for r in done.repeats) < done.time_s
    names = [line["name"] for line in store.read_lines(folder.windows)]
    # A window is written when it has ended: inner ones before outer ones.
    assert names.count("repeat") == 3
    assert names.count("train") == names.count("evaluate") == names.count("epoch") == 9
    assert {"idle", "trial"} < set(names)


def test_whoever_listened_may_go_and_the_trial_goes_on() -> None:
    read, write = os.pipe()
    stream = os.fdopen(write, "w")
    tell = worker.teller(stream)
    tell({"phase": "load"})
    assert os.read(read, 100) == b'{"progress":{"phase":"load"}}\n'
    os.close(read)
    for _ in range(3):
        tell({"phase": "train"})
    with pytest.raises(BrokenPipeError):
        stream.close()


@pytest.mark.parametrize("arguments", [[], ["a", "b"]])
def test_the_process_wants_one_folder(arguments: list[str]) -> None:
    with pytest.raises(InputError, match="one trial folder is wanted"):
        worker.main(arguments)
