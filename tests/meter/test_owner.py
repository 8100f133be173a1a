# SPDX-License-Identifier: Apache-2.0
"""The registry behind measure()."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from joulelab.errors import InputError
from joulelab.meter.owner import close_all, meter_for
from joulelab.meter.session import WHOLE
from joulelab.records.layout import TrialFolder


def test_one_meter_for_equal_settings(fake: str, tmp_path: Path) -> None:
    first = meter_for(None, [fake])
    assert meter_for(None, (fake,)) is first
    assert meter_for(tmp_path, (fake,)) is not first
    close_all()
    assert meter_for(None, (fake,)) is not first
    close_all()


def test_meters_of_measure_are_closed_at_exit(fake: str, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom joulelab.meter.window import measure\n"
        "with measure('w', out=sys.argv[1], devices=[sys.argv[2]]): pass\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "trial"), fake], check=True)
    lines = (tmp_path / "trial" / "windows.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines[1:]] == ["w", WHOLE]


def test_importing_registers_nothing() -> None:
    code = (
        "import atexit, os\n"
        # The standard library and msgspec register things of their own.
        "import random, subprocess, tempfile, threading, weakref, joulelab.records.measurement\n"
        "before = atexit._ncallbacks()\n"
        "seen = []\n"
        "os.register_at_fork = lambda **k: seen.append(k)\n"
        "import joulelab.meter.window, joulelab.meter.meter\n"
        "assert atexit._ncallbacks() == before and not seen\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_one_name_alone_is_not_taken_letter_by_letter() -> None:
    with pytest.raises(InputError, match="devices = 'estimate' is text"):
        meter_for(None, "estimate")


def test_a_folder_has_one_meter_whatever_it_is_called(
    fake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = meter_for("trial", (fake,))
    names: list[Path | str] = [Path("trial"), "./trial", tmp_path / "trial", str(tmp_path / "trial")]
    assert all(meter_for(name, (fake,)) is first for name in names)
    assert meter_for("another", (fake,)) is not first
    with first.window("w"):
        pass
    close_all()
    lines = (tmp_path / "trial" / "windows.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines[1:]] == ["w", WHOLE]


def test_a_meter_that_nobody_closed_is_closed_at_exit(fake: str, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom joulelab.meter.meter import Meter\n"
        "meter = Meter(out=sys.argv[1], devices=[sys.argv[2]])\n"
        "with meter.window('w'): pass\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "trial"), fake], check=True)
    assert TrialFolder(tmp_path / "trial").done.exists()
    assert not TrialFolder(tmp_path / "trial").claim.exists()
