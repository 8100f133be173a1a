# SPDX-License-Identifier: Apache-2.0
"""Trials of a few lines as jobs of Slurm, and a study of them in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from joulelab.launch.slurm import Slurm
from joulelab.study.study_file import Study

if TYPE_CHECKING:
    from collections.abc import Sequence

    from joulelab.records.layout import TrialFolder
    from joulelab.records.parameter import Scalar

ROOT = Path(__file__).parents[2]
RUNNER = """
import sys
from pathlib import Path
from typing import TYPE_CHECKING
import msgspec
from joulelab.study.runner import run_study
from joulelab.study.study_file import Study
study = msgspec.json.decode(sys.argv[1], type=Study)
say = lambda e: print(e.kind, e.name, e.text, flush=True)
summary = run_study(study, Path(sys.argv[2]), on_progress=say)
print("RAN", summary.ran, flush=True)
sys.exit(summary.exit_code)
"""


class QuickSlurm(Slurm):
    module = "study_parts"
    settle_s = 0.5
    every_s = 0.2


class Ranks(QuickSlurm):
    module = "tests.launch.rank_worker"


class Impatient(QuickSlurm):
    """A minute, less the warning: no test has time for the shortest limit of Slurm."""

    def script(self, folders: Sequence[TrialFolder], *, workers: int, name: str) -> str:
        text = super().script(folders, workers=workers, name=name)
        return text.replace("--signal=TERM@120", "--signal=TERM@57 --time=1")


def study_of(
    count: int = 3,
    *,
    seconds: float = 0.0,
    ends: tuple[Scalar, ...] = ("well",),
    launcher: str = "QuickSlurm",
    **options: Scalar,
) -> Study:
    return Study(
        name="quick",
        workload="study_parts:Quick",
        launcher=f"tests.launch.slurm_parts:{launcher}",
        parameters={"seconds": seconds},
        grid={"number": tuple(range(count)), "ends": ends},
        options={"ask_every_s": 0.2, **options},
    )


def start(study: Study, out: Path, **variables: str) -> subprocess.Popen[str]:
    paths = (ROOT, ROOT / "src", ROOT / "tests" / "study")
    return subprocess.Popen(
        [sys.executable, "-c", RUNNER, msgspec.json.encode(study).decode(), str(out)],
        env={**os.environ, **variables, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def line_of(process: subprocess.Popen[str], beginning: str) -> str:
    """Block until the process says a line that begins so."""
    assert process.stdout is not None
    heard = []
    for line in process.stdout:
        heard.append(line)
        if line.startswith(beginning):
            return line
    raise AssertionError(f"ended without a line {beginning!r}: {heard}")


def starts(folder: TrialFolder) -> int:
    """How often the trial has begun."""
    path = folder.path / "starts.txt"
    return len(path.read_text().splitlines()) if path.exists() else 0
