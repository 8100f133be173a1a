# SPDX-License-Identifier: Apache-2.0
"""The way to NVML, and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from joulelab.errors import SensorError
from joulelab.hardware.nvidia import Nvidia
from joulelab.hardware.nvml import Nvml, NvmlError

if TYPE_CHECKING:
    from tests.fakes.nvml import FakeNvml

LOOK = (
    "from joulelab.hardware.nvidia import Nvidia\nfor p in Nvidia.find().problems: print(p.what, '|', p.cure)"
)


def look(path: list[Path], **environment: str) -> str:
    """What a fresh interpreter says whose import path begins with `path`."""
    sources = Path(sys.modules["joulelab.hardware.nvml"].__file__ or "").parents[2]
    names = os.pathsep.join(str(p) for p in [*path, sources])
    kept = {k: v for k, v in os.environ.items() if k != "JOULELAB_NVML_LIBRARY"}
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        env={**kept, "PYTHONPATH": names, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_another_package_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("nvmlLib = None\n", encoding="ascii")
    said = look([tmp_path])
    assert f"{tmp_path / 'pynvml.py'} is not NVIDIA's" in said
    assert "pip uninstall pynvml" in said


def test_no_binding_at_all(tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text(
        "raise ModuleNotFoundError('No module named pynvml')\n", encoding="ascii"
    )
    assert "pip install nvidia-ml-py" in look([tmp_path])


def test_a_library_that_cannot_be_loaded(no_nvml: None) -> None:
    (problem,) = Nvidia.find().problems
    assert "there is none.so" in problem.what
    assert "unset JOULELAB_NVML_LIBRARY" in problem.cure


@pytest.mark.parametrize(
    ("code", "what", "cure"),
    [(9, "Driver Not Loaded", "modprobe nvidia"), (18, "", "reboot"), (4, "Insufficient", "--gpus all")],
)
def test_a_driver_that_does_not_start(nvml: FakeNvml, code: int, what: str, cure: str) -> None:
    nvml.set(init_error=code)
    found = Nvidia.find()
    assert not found.devices
    (problem,) = found.problems
    assert what in problem.what
    assert cure in problem.cure


def test_optional_is_none_for_what_is_not_there_and_an_error_for_what_is_lost(nvml: FakeNvml) -> None:
    nvml.set(has_counter=0)
    library = Nvml()
    handle = library.call("nvmlDeviceGetHandleByIndex", 0)
    assert library.optional("nvmlDeviceGetTotalEnergyConsumption", handle) is None
    assert library.optional("nvmlDeviceGetFanSpeed", handle) is None, (
        "the stand-in lacks it, as an old driver may"
    )
    library.close()
    library.close()
    nvml.set(lost_after_s=0)
    library = Nvml()
    with pytest.raises(NvmlError, match="GPU is lost") as caught:
        library.optional("nvmlDeviceGetTotalEnergyConsumption", handle)
    assert isinstance(caught.value, SensorError)
    assert "Xid" in caught.value.cure
    library.close()
