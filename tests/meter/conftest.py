# SPDX-License-Identifier: Apache-2.0
"""Fake devices in a file, as any process can read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def fake(tmp_path: Path) -> str:
    """One card at a steady 400 W with a counter every 100 ms."""
    return fakes(tmp_path, {"shape": "constant", "load": {"power_w": 400.0}, "power_max_w": 700.0})


def fakes(folder: Path, *groups: dict[str, object]) -> str:
    """The name of a device file with these groups."""
    path = folder / f"devices-{len(list(folder.iterdir()))}.json"
    path.write_text(json.dumps(list(groups)))
    return f"fake:{path}"
