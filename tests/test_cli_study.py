# SPDX-License-Identifier: Apache-2.0
"""`joulelab study` and `joulelab show`: the commands as a user types them."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from joulelab.cli import app
from joulelab.errors import InputError, RecordError

STUDY = """\
workload = "study_parts:Quick"
launcher = "study_parts:QuickLauncher"
name = "quick"
against = { number = 2 }

[parameters]
seconds = 30.0

[grid]
number = [1, 2, 10]

[small]
repeats = 2

[small.parameters]
seconds = 0.0
"""


@pytest.fixture(autouse=True)
def _parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    parts = Path(__file__).parent / "study"
    monkeypatch.syspath_prepend(str(parts))
    monkeypatch.setenv("PYTHONPATH", f"{parts}{os.pathsep}{os.environ['PYTHONPATH']}")
    monkeypatch.chdir(tmp_path)
    Path("quick.toml").write_text(STUDY, encoding="utf-8")


def joulelab(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def test_a_small_variant_says_so_wherever_it_is_shown() -> None:
    done = joulelab("study", "quick.toml", "--small")
    assert done.exit_code == 0, done.output
    assert "record: runs/quick-small" in done.stdout
    assert "SMALL VARIANT" in done.stdout
    assert done.stdout.index("SMALL VARIANT") < done.stdout.index("Against number=2, all else alike")
    assert json.loads(Path("runs/quick-small/study.json").read_text())["small"] is True
    specs = [json.loads(path.read_text()) for path in Path("runs").glob("*/trials/*/spec.json")]
    assert [spec["small"] for spec in specs] == [True, True, True]
    rows = json.loads(joulelab("show", "runs", "--json").stdout)
    assert [(row["number"], row["small"]) for row in rows] == [(1, True), (2, True), (10, True)]
    assert "SMALL VARIANT" in joulelab("show", str(next(Path("runs").glob("*/trials/*")))).stdout


def test_small_and_full_beside_each_other_are_told_apart() -> None:
    assert joulelab("study", "quick.toml", "--small").exit_code == 0
    assert joulelab("study", "quick.toml", "--set", "seconds=0.001").exit_code == 0
    shown = joulelab("show", "runs").stdout
    assert "SMALL VARIANT" not in shown
    assert "small: of the small variant of a study" in shown
    assert len([line for line in shown.splitlines() if " small" in line and " J " in line]) == 3
    done = joulelab("study", "quick.toml", "--small", "--out", "runs/quick")
    assert isinstance(done.exception, RecordError)
    assert "holds the full study, and this is the small variant" in str(done.exception)


def test_values_of_the_command_line_are_in_the_record() -> None:
    done = joulelab("study", "quick.toml", "--small", "--set", "ends=well", "--set", "repeats=1")
    assert done.exit_code == 0, done.output
    spec = json.loads(next(Path("runs").glob("*/trials/*/spec.json")).read_text())
    assert (spec["parameters"]["ends"], spec["repeats"]) == ("well", 1)
    for words, error in (("ends", "is not NAME=VALUE"), ("ends=badly", "--set ends=badly: ends = 'badly'")):
        refused = joulelab("study", "quick.toml", "--set", words)
        assert isinstance(refused.exception, InputError)
        assert error in str(refused.exception)


def test_against_is_what_is_asked_for_or_what_the_study_says() -> None:
    assert joulelab("study", "quick.toml", "--small").exit_code == 0
    assert "Against number=2" in joulelab("show", "runs/quick-small").stdout
    assert "Against number=10" in joulelab("show", "runs/quick-small", "--against", "number=10").stdout
    assert "Against" not in joulelab("show", "runs").stdout, "a folder of studies has no reference of its own"
    rows = json.loads(joulelab("show", "runs", "--against", "number=1", "--json").stdout)
    assert [row["is_reference"] for row in rows] == [True, False, False]
    table = joulelab("show", "runs", "--against", "number=1", "--csv").stdout
    assert [row["number"] for row in csv.DictReader(io.StringIO(table))] == ["1", "2", "10"]
    refused = joulelab("show", "runs", "--against", "number=3")
    assert isinstance(refused.exception, InputError)
    assert "legal: 1, 2, 10" in str(refused.exception)
