# SPDX-License-Identifier: Apache-2.0
"""Slurm's own figure of energy: one row, no sum, and nothing where nothing is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from joulelab.launch.slurm_energy import Accounting, joules, parse_sacct
from joulelab.records.layout import TrialFolder

if TYPE_CHECKING:
    from pathlib import Path

ROWS = """\
12_3|61|18446744073709551614
12_30|61|999
12_4|120|24000
12_4.batch|120|24000
12_4.extern|120|23990
12_4.0|118|23700
12_5|10|0
12_6|10|
"""


@pytest.mark.parametrize(
    ("text", "energy_j"),
    [
        ("24000", 24000.0),
        ("1.50K", 1500.0),
        ("2M", 2e6),
        ("3.25G", 3.25e9),
        ("0", None),
        ("0K", None),
        ("18446744073709551614", None),
        ("18446744073709551615", None),
        ("", None),
        ("-1", None),
        ("12 J", None),
    ],
)
def test_joules(text: str, energy_j: float | None) -> None:
    assert joules(text) == energy_j


def test_the_row_of_the_job_itself() -> None:
    found = parse_sacct(ROWS, job="12_4")
    assert found is not None
    assert (found.energy_j, found.elapsed_s, found.source) == (24000.0, 120.0, "reported")
    assert [parse_sacct(ROWS, job=job) for job in ("12_3", "12_5", "12_6", "12", "13")] == [None] * 5


def fake_sacct(folder: Path, text: str) -> None:
    (folder / "sacct").write_text(f"#!/bin/bash\n{text}\n")
    (folder / "sacct").chmod(0o755)


def test_the_figure_is_kept_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    fake_sacct(tmp_path, f'echo "$*" > "{tmp_path}/asked"; printf "12_4|120|24000\\n12_4.0|118|23700\\n"')
    folder = TrialFolder(tmp_path)
    Accounting().keep(folder, job="12_4")
    said = json.loads(folder.job_energy.read_text())
    assert (said["scheduler"], said["job"], said["energy_j"]) == ("slurm", "12_4", 24000.0)
    assert (tmp_path / "asked").read_text() == "-j 12_4 -n -P --format=JobID,ElapsedRaw,ConsumedEnergyRaw\n"


@pytest.mark.parametrize("text", ["echo 'Slurm accounting storage is disabled' >&2; exit 1", ""])
def test_without_accounting_there_is_no_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if text:
        fake_sacct(tmp_path, f'echo x >> "{tmp_path}/asked"; {text}')
    else:
        monkeypatch.setenv("PATH", str(tmp_path))  # there is no such command
    accounting = Accounting()
    for _ in range(2):
        accounting.keep(TrialFolder(tmp_path), job="12_4")
    assert not TrialFolder(tmp_path).job_energy.exists()
    assert capfd.readouterr() == ("", "")
    # Asked once: the next thousand trials do not ask again.
    assert not text or (tmp_path / "asked").read_text() == "x\n"
