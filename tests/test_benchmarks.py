# SPDX-License-Identifier: Apache-2.0
"""A benchmark that ran for minutes must not lose its result at the last line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

ONE_LOAD = (
    "import sys\n"
    "sys.path.insert(0, sys.argv.pop(1))\n"
    "import meter_truth\n"
    "meter_truth.LOADS = {'160 of 200 ms': (0.160, 0.040)}\n"
    "meter_truth.main()\n"
)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="the stand-in library needs gcc")
def test_the_truth_of_the_meter_against_a_stand_in(weird_tmp_path: Path) -> None:
    out = weird_tmp_path / "truth.json"
    words = ["--stand-in", "--seconds", "4", "--windows", "20", "-o", str(out)]
    subprocess.run([sys.executable, "-c", ONE_LOAD, str(ROOT / "benchmarks"), *words], check=True, timeout=50)
    written = json.loads(out.read_text())
    assert written["device"]
    assert [row["kind"] for row in written["rows"]] == ["anywhere", "on edges", "exact"]
    assert all(row["held"] == 1 for row in written["rows"])
    assert str(ROOT) not in out.read_text()


@pytest.mark.slow
def test_how_long_a_checkpoint_holds_a_step_up(weird_tmp_path: Path) -> None:
    out = weird_tmp_path / "hold.json"
    words = ["--width", "300", "--checkpoints", "6", "--optimizer", "adam", "-o", str(out)]
    script = ROOT / "benchmarks" / "checkpoint_hold.py"
    subprocess.run([sys.executable, str(script), *words], check=True, timeout=50)
    written = json.loads(out.read_text())
    assert 1 <= written["held_up"]["n"] < 6
    assert written["checkpoint_mb"] == pytest.approx(3 * written["model_mb"], rel=0.1)
    assert 0 < written["held_up"]["median_ms"] < written["written_in"]["range_ms"][1]
