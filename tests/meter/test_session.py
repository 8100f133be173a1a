# SPDX-License-Identifier: Apache-2.0
"""The record that a program makes of itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from joulelab.errors import InputError, RecordError
from joulelab.meter.meter import Meter
from joulelab.meter.session import WHOLE
from joulelab.records import store
from joulelab.records.layout import TrialFolder
from joulelab.records.store import load_records
from joulelab.records.trial import TrialSpec


def test_it_is_a_trial_like_any_other(fake: str, tmp_path: Path) -> None:
    out = tmp_path / "trial"
    with Meter(out=out, devices=[fake]) as meter:
        (record,) = load_records(out)
        assert record.state == "running"
        with meter.window("a") as a:
            pass
        with meter.window("b") as b:
            pass
    (record,) = load_records(out)
    assert record.state == "done"
    assert record.spec.workload == "command"
    assert record.spec.command
    assert record.host["devices"][0]["uid"] == "gpu:fake-devices-0-0"
    assert record.result is not None
    assert record.result.valid
    assert record.result.time_s > a.time_s + b.time_s
    assert [window["name"] for window in record.windows()] == ["a", "b", WHOLE]
    assert all(window["parent"] is None for window in record.windows())


def test_a_second_session_sets_the_first_aside(fake: str, tmp_path: Path) -> None:
    out = tmp_path / "trial"
    for name in ("first", "second"):
        with Meter(out=out, devices=[fake]) as meter, meter.window(name):
            pass
    assert [w["name"] for w in load_records(out)[0].windows()] == ["second", WHOLE]
    assert '"first"' in (out / "attempts" / "1" / "windows.jsonl").read_text()


def test_a_trial_of_a_study_is_not_written_over(fake: str, tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    store.write_json(folder.spec, TrialSpec(workload="nt3"))
    folder.done.touch()
    with pytest.raises(RecordError, match="already holds a trial"):
        Meter(out=tmp_path, devices=[fake]).open()


def test_a_program_that_was_killed_is_told_from_one_that_ended(fake: str, tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\nfrom joulelab.meter.meter import Meter\n"
        "meter = Meter(out=sys.argv[1], devices=[sys.argv[2]])\n"
        "with meter.window('w'): pass\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "trial"), fake], check=False, env=os.environ)
    (record,) = load_records(tmp_path / "trial")
    assert record.state == "failed"
    assert "left no word" in record.failure["reason"]


def test_a_misspelt_device_does_not_keep_the_folder_from_the_next_try(fake: str, tmp_path: Path) -> None:
    out = tmp_path / "trial"
    with pytest.raises(InputError, match="unknown device 'nope'"):
        Meter(out=out, devices=["nope"]).open()
    assert not out.exists()
    with Meter(out=out, devices=[fake]) as meter, meter.window("a"):
        pass
    assert load_records(out)[0].state == "done"
    with pytest.raises(InputError, match="unknown device 'nope'"):
        Meter(out=out, devices=["nope"]).open()
    assert load_records(out)[0].state == "planned"
    assert (out / "attempts" / "1" / "result.json").exists()


def test_a_folder_of_trials_does_not_become_one(fake: str, tmp_path: Path) -> None:
    store.make_folder(tmp_path / "runs" / "first")
    store.write_json(TrialFolder(tmp_path / "runs" / "first").spec, TrialSpec(workload="nt3"))
    with pytest.raises(RecordError, match="holds trials already"):
        Meter(out=tmp_path / "runs", devices=[fake]).open()
    assert len(load_records(tmp_path / "runs")) == 1


def test_ranks_may_come_in_any_order(fake: str, tmp_path: Path) -> None:
    """The one that comes first begins the record; the next ones join it, and set nothing of it aside."""
    out = tmp_path / "trial"
    code = (
        "import sys\nfrom joulelab.meter.meter import Meter\n"
        "with Meter(out=sys.argv[1], devices=[sys.argv[2]]) as meter:\n"
        "    with meter.window(sys.argv[3]): print('in', flush=True); sys.stdin.read()\n"
    )
    job = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29411", "WORLD_SIZE": "2"}
    for turn in ("first", "again"):
        ranks = []
        for rank in ("1", "0"):
            words = [sys.executable, "-c", code, str(out), fake, f"{turn} rank {rank}"]
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **job, "RANK": rank}
            )
            assert process.stdout is not None
            assert process.stdout.readline() == b"in\n"
            ranks.append(process)
        for process in ranks:
            process.communicate()
            assert process.returncode == 0
        (record,) = load_records(out)
        assert record.state == "done"
        assert [w["name"] for w in record.windows()] == [f"{turn} rank 1", WHOLE, f"{turn} rank 0"]
    assert [path.name for path in (out / "attempts").iterdir()] == ["1"]
