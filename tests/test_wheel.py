# SPDX-License-Identifier: Apache-2.0
"""The wheel holds the package, its types and its licence, and runs where the sources are not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

import joulelab
from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: a build leaves folders beside the sources."""
    copy = tmp_path_factory.mktemp("a copy")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    command = "from setuptools import build_meta as b; b.build_wheel('.')"
    built = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", command],
        cwd=copy,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert built.returncode == 0, built.stderr[-3000:]
    (found,) = copy.glob("*.whl")
    return found


def test_it_holds_every_source(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    sources = {str(file.relative_to(ROOT / "src")) for file in (ROOT / "src" / "joulelab").rglob("*.py")}
    assert sources <= held
    assert "joulelab/py.typed" in held
    assert any(name.endswith("licenses/LICENSE") for name in held)
    assert not [name for name in held if name.startswith("tests")]


def test_it_says_its_version_and_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        (name,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = file.read(name).decode()
    assert f"\nVersion: {joulelab.__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata


def test_it_runs_elsewhere(wheel: Path, weird_tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        file.extractall(weird_tmp_path / "site")
    command = "import sys, joulelab.cli as c; sys.argv[1:] = ['--version']; print(c.__file__); c.main()"
    env = {**os.environ, "PYTHONPATH": str(weird_tmp_path / "site")}
    run = subprocess.run(
        [sys.executable, "-c", command],
        cwd=weird_tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    home, version = run.stdout.splitlines()
    assert home.startswith(str(weird_tmp_path))
    assert version == joulelab.__version__
