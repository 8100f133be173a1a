# SPDX-License-Identifier: Apache-2.0
"""The compiled CSV parser for tests that compare it, installed or not."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from joulelab.data import csv_native
from tests.conftest import ROOT


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The installed module, or one built here: a checkout that is run in place has none."""
    if csv_native.native is not None:
        return csv_native.native
    copy = tmp_path_factory.mktemp("built here")
    folder = Path("src") / "joulelab" / "data"
    shutil.copy(ROOT / "setup.py", copy)
    shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-W", "ignore", "setup.py", "-q", "build_ext", "--build-lib", "lib"]
    built = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=50, check=False)
    found = list((copy / "lib").rglob("_csv_native*.so"))
    if not found:
        pytest.skip(f"no compiler that builds the extension: {built.stderr[-300:]}")
    name = "joulelab.data._csv_native"
    loader = importlib.machinery.ExtensionFileLoader(name, str(found[0]))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture(params=csv_native.KERNELS)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each parser in turn, as the one that readers take."""
    chosen = request.getfixturevalue("native") if request.param == "native" else None
    monkeypatch.setattr(csv_native, "native", chosen)
    name: str = request.param
    return name
