# SPDX-License-Identifier: Apache-2.0
"""What a Cray's node controller says of its caps: it is shown, and never set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from joulelab.errors import SensorError
from joulelab.hardware.caps_cray import CrayCap

if TYPE_CHECKING:
    from pathlib import Path


def test_caps_are_shown_and_not_set(tmp_path: Path) -> None:
    (tmp_path / "power_cap").write_text("0 W 1700000000 us\n", encoding="ascii")
    (tmp_path / "accel0_power_cap").write_text("400 W 1700000000 us\n", encoding="ascii")
    caps = CrayCap.find(str(tmp_path)).caps
    assert [(cap.uid, cap.kind, cap.limits().now_w) for cap in caps] == [
        ("gpu:cray-accel0", "gpu", 400.0),
        ("node:cray-node", "node", 0.0),
    ]
    assert all("node controller sets this cap" in cap.why_not() for cap in caps)
    with pytest.raises(SensorError, match="no control"):
        caps[0].write("power_cap", 300)


def test_no_cray(tmp_path: Path) -> None:
    assert CrayCap.find(str(tmp_path)).problems[0].vendor == "cray"
