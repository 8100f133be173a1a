# SPDX-License-Identifier: Apache-2.0
"""Scripts of jobs: their text as it was looked at, and what bash makes of it where folders have odd names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from joulelab.launch.job_script import Work, job_name
from joulelab.launch.local import import_path
from joulelab.launch.lsf_script import LsfJob, lsf_script
from joulelab.launch.pbs_script import PbsJob, pbs_script
from joulelab.records import store
from joulelab.records.layout import TrialFolder
from joulelab.records.trial import TrialSpec
from tests.launch.script_cases import CASES, GOLDEN

if TYPE_CHECKING:
    from joulelab.records.parameter import Scalar

# Each takes the options away, notes what is left, and starts it unless it is torchrun.
TAKEN_AWAY = 'while [[ $1 = -* ]]; do shift 2; done; printf "%s\\n" "$@" > "$SEEN"; '
STARTED = '[[ " $* " = *torch.distributed* ]] || exec "$@"'
STARTERS = {"mpiexec": TAKEN_AWAY + STARTED, "jsrun": TAKEN_AWAY + STARTED, "module": "exit 0"}


@pytest.mark.parametrize("name", CASES)
def test_text(name: str) -> None:
    assert CASES[name] == (GOLDEN / name).read_text(encoding="utf-8")


def test_every_kept_script_is_compared() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_bash_can_read_it(name: str) -> None:
    done = subprocess.run(["bash", "-n"], input=CASES[name], text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def planned(home: Path, count: int) -> tuple[TrialFolder, ...]:
    folders = tuple(TrialFolder(home / f"trial {number}") for number in range(count))
    for folder in folders:
        folder.path.mkdir()
        parameters: dict[str, Scalar] = {"number": 1, "seconds": 0.0, "ends": "well"}
        store.write_json(folder.spec, TrialSpec(workload="study_parts:Quick", parameters=parameters))
    return folders


def work_of(folders: tuple[TrialFolder, ...], **more: object) -> Work:
    parts = Path(__file__).parents[1] / "study"
    plain = Work(
        trials=tuple(folder.path for folder in folders),
        python=sys.executable,
        import_path=f"{parts}{os.pathsep}{import_path()}",
        module="study_parts",
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def bash(script: str, home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    (home / "bin").mkdir(exist_ok=True)
    for name, text in STARTERS.items():
        (home / "bin" / name).write_text(f"#!/bin/bash\n{text}\n")
        (home / "bin" / name).chmod(0o755)
    path = f"{home / 'bin'}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "SEEN": str(home / "seen"), **variables}
    return subprocess.run(
        ["bash", "-s"],
        input=script,
        cwd=home,
        env=env,
        text=True,
        capture_output=True,
        check=False,
        timeout=30,
    )


def test_pbs_runs_the_trial_of_its_place_in_the_array(weird_tmp_path: Path) -> None:
    folders = planned(weird_tmp_path, 3)
    script = pbs_script(PbsJob(name="demo"), work_of(folders))
    here = {"PBS_O_WORKDIR": str(weird_tmp_path), "PBS_JOBID": "12[1].server", "PBS_ARRAY_INDEX": "1"}
    done = bash(script, weird_tmp_path, **here)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
    assert [folder.done.exists() for folder in folders] == [False, True, False]
    assert folders[1].log.read_text() == "a line of the user's own\n"
    assert not folders[1].claim.exists()
    note = json.loads(folders[1].job.read_text())
    assert (note["scheduler"], note["job"]) == ("pbs", "12[1].server")


def test_lsf_counts_from_one_and_tells_a_failure(weird_tmp_path: Path) -> None:
    folders = planned(weird_tmp_path, 2)
    script = lsf_script(LsfJob(name="demo"), work_of(folders, module="no_such_module"))
    done = bash(script, weird_tmp_path, LSB_JOBID="7", LSB_JOBINDEX="2")
    assert done.returncode == 1
    assert "No module named no_such_module" in folders[1].log.read_text()
    assert not folders[0].log.exists()


def test_many_workers_are_started_by_one_torchrun_a_node(weird_tmp_path: Path) -> None:
    (folder,) = planned(weird_tmp_path, 1)
    (weird_tmp_path / "hosts").write_text("batch5\nh41n08\nh41n09\n")
    work = work_of((folder,), workers=4, nodes=2, container="env A='b c'", module="some.module")
    here = {"LSB_JOBID": "20007", "LSB_DJOB_HOSTFILE": str(weird_tmp_path / "hosts")}
    bash(lsf_script(LsfJob(name="demo"), work), weird_tmp_path, **here)
    seen = (weird_tmp_path / "seen").read_text().splitlines()
    assert seen[:2] == ["env", "A=b c"]
    assert seen[3:6] == ["-P", "-m", "torch.distributed.run"]
    assert seen[6:] == [
        "--nnodes=2",
        "--nproc-per-node=2",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=h41n08:10007",
        "--rdzv-id=20007[0]",
        "-m",
        "some.module",
        str(folder.path),
    ]


def test_a_folder_that_the_node_does_not_see(tmp_path: Path) -> None:
    script = pbs_script(PbsJob(name="demo"), work_of((TrialFolder(tmp_path / "none"),)))
    done = bash(script, tmp_path, PBS_O_WORKDIR=str(tmp_path), PBS_JOBID="12.server")
    assert done.returncode == 73
    assert "the nodes must share the folder of the study" in done.stderr


@pytest.mark.parametrize(
    ("text", "name"), [("a b/ü", "a_b"), ("--x", "x"), ("", "joulelab"), ("n" * 99, "n" * 60)]
)
def test_names(text: str, name: str) -> None:
    assert job_name(text) == name
