# SPDX-License-Identifier: Apache-2.0
"""`joulelab caps`, and what every other command does first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from joulelab.cli import app
from joulelab.errors import InputError
from joulelab.hardware.find_caps import find_caps
from joulelab.knobs.hold import held
from joulelab.knobs.lease import LeaseFolder
from tests.fakes.caps import GPU_FOUND_MW, Machine
from tests.knobs.test_put_back import left_by_the_dead

if TYPE_CHECKING:
    from pathlib import Path


def joulelab(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def test_caps_are_shown_with_their_holders(machine: Machine) -> None:
    left_by_the_dead(machine)
    found = find_caps("gpu", ["nvidia:0"])
    with held([(found.caps[0], 250.0)], folder=LeaseFolder(machine.leases), trial="runs/x", say=print):
        done = joulelab("caps")
        shown = joulelab("caps", "show", "--device", f"rapl:{machine.powercap}")
    found.close()
    assert done.exit_code == shown.exit_code == 0
    assert "in force: 250 W; legal: 200 to 700 W; default: 700 W" in done.stdout
    assert "capped at 250 W by process" in done.stdout
    assert "(trial runs/x); will go back to limit_mw = 500000" in done.stdout
    assert "LEFT at 300 W by process" in done.stdout
    assert f"leases: {machine.leases}" in done.stdout
    assert "cpu:package-1  package-1\n  in force: 180 W" in shown.stdout
    assert machine.gpu_log() == [(1, 300_000), (0, 250_000), (0, 500_000)], "looking changes nothing"


def test_restore_puts_back_and_says_so(machine: Machine) -> None:
    left_by_the_dead(machine)
    done = joulelab("caps", "restore")
    assert done.exit_code == 0
    assert "put back to what process" in done.stdout
    assert machine.gpu_log() == [(1, 300_000), (1, GPU_FOUND_MW)]
    again = joulelab("caps", "restore")
    assert (again.exit_code, again.stdout) == (0, "")


def test_restore_says_when_it_could_not(machine: Machine) -> None:
    left_by_the_dead(machine, uid="gpu:GPU-gone", argument="GPU-gone")
    done = joulelab("caps", "restore")
    assert done.exit_code == 1
    assert "could not be put back" in done.stdout


def test_every_other_command_puts_back_first(machine: Machine, tmp_path: Path) -> None:
    left_by_the_dead(machine)
    done = joulelab("show", str(tmp_path))
    assert "put back to what process" in done.stderr
    assert machine.gpu_log() == [(1, 300_000), (1, GPU_FOUND_MW)]
    assert "put back" not in joulelab("show", str(tmp_path)).output


@pytest.mark.parametrize(
    ("flag", "words"),
    [("100", "100 W is out of the range"), ("full", "power_limit = 'full' is not legal")],
)
def test_a_cap_that_cannot_be_is_refused_while_planning(
    machine: Machine, tmp_path: Path, flag: str, words: str
) -> None:
    done = joulelab("run", "nt3", "--power-limit", flag, "--out", str(tmp_path / "trial"))
    assert isinstance(done.exception, InputError)
    assert words in str(done.exception)
    assert not (tmp_path / "trial").exists()


def test_a_study_is_refused_with_its_line(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "caps.toml"
    file.write_text('workload = "nt3"\n[grid]\npower_limit = ["as-is", 400, "20%"]\n', encoding="utf-8")
    done = joulelab("study", str(file), "--out", str(tmp_path / "runs"))
    assert isinstance(done.exception, InputError)
    assert f"{file}:3: [grid]: power_limit = 20%: 20%, 140 W, is out of the range" in str(done.exception)
    assert machine.gpu_log() == []


def test_a_simulated_cap_is_marked_where_it_is_shown(tmp_path: Path, machine: Machine) -> None:
    limits = {"now_w": 700, "default_w": 700, "min_w": 200, "max_w": 700}
    (tmp_path / "card.json").write_text(json.dumps({"cap": limits}), encoding="utf-8")
    done = joulelab("caps", "show", "--device", f"fake:{tmp_path / 'card.json'}")
    assert "(SIMULATED)" in done.stdout
