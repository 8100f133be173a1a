# SPDX-License-Identifier: Apache-2.0
"""The stand-in for NVIDIA's library, compiled, and put under NVIDIA's own binding."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fakenvml.c")
# The board's power, as its keys say when nothing else is given.
HIGH_W, LOW_W, HIGH_S, LOW_S = 690.0, 125.0, 0.16, 0.04
MEAN_W = (HIGH_W * HIGH_S + LOW_W * LOW_S) / (HIGH_S + LOW_S)


def compiled(folder: Path) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the stand-in for NVIDIA's library cannot be built")
    library = folder / "libfakenvml.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, SOURCE, "-lm"], check=True)
    return library


@dataclass
class FakeNvml:
    config: Path

    def set(self, **values: float) -> None:
        """Takes effect when NVML is opened the next time."""
        self.config.write_text("".join(f"{k} {v}\n" for k, v in values.items()), encoding="ascii")
