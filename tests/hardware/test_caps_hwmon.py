# SPDX-License-Identifier: Apache-2.0
"""AMD's and Intel's cards in a made-up /sys/class/drm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from joulelab.errors import SensorError
from joulelab.hardware.caps_hwmon import AmdCap, IntelGpuCap
from joulelab.hardware.device import Limits

if TYPE_CHECKING:
    from pathlib import Path


def card(root: Path, number: int, **files: object) -> Path:
    """A card as sysfs shows it: its device is a link to its place on the bus."""
    place = root / "devices" / f"0000:{number:02x}:00.0"
    hwmon = place / "hwmon" / f"hwmon{number + 3}"
    hwmon.mkdir(parents=True)
    for name, value in files.items():
        (hwmon / name).write_text(f"{value}\n", encoding="ascii")
    (root / "drm" / f"card{number}").mkdir(parents=True)
    (root / "drm" / f"card{number}" / "device").symlink_to(place)
    return hwmon


def amd(root: Path, number: int = 0) -> Path:
    return card(
        root,
        number,
        name="amdgpu",
        power1_cap=500_000_000,
        power1_cap_default=750_000_000,
        power1_cap_min=0,
        power1_cap_max=750_000_000,
    )


def test_amd(tmp_path: Path) -> None:
    hwmon = amd(tmp_path)
    (cap,) = AmdCap.find(str(tmp_path / "drm")).caps
    assert cap.uid == "gpu:amd-0000:00:00.0"
    assert cap.limits() == Limits(now_w=500.0, default_w=750.0, min_w=0.0, max_w=750.0)
    cap.write("power1_cap", cap.wanted(400.0)["power1_cap"])
    assert (hwmon / "power1_cap").read_text(encoding="ascii") == "400000000\n"
    assert cap.controls() == {"power1_cap": 400_000_000}
    (again,) = AmdCap.find(cap.argument).caps
    assert again.uid == cap.uid


def test_intel_without_a_limit_in_force(tmp_path: Path) -> None:
    card(tmp_path, 0, name="xe", power1_max=0, power1_rated_max=300_000_000)
    card(tmp_path, 1, name="nouveau", power1_max=0)
    (cap,) = IntelGpuCap.find(str(tmp_path / "drm")).caps
    assert cap.limits() == Limits(now_w=300.0, default_w=300.0, min_w=0.0, max_w=0.0)
    assert cap.controls() == {"power1_max": 0}, "0, no limit, is what goes back"


def test_which_cards_are_meant_is_not_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    amd(tmp_path, 0)
    (cap,) = AmdCap.find(str(tmp_path / "drm")).caps
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "0")
    assert cap.why_not() == ""
    amd(tmp_path, 1)
    assert "HIP_VISIBLE_DEVICES is set and there are 2 cards" in cap.why_not()
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert "no permission to write" in cap.why_not()


def test_none(tmp_path: Path) -> None:
    found = AmdCap.find(str(tmp_path))
    assert not found.caps
    assert "no amdgpu card with power1_cap" in found.problems[0].what


def test_a_card_that_is_gone(tmp_path: Path) -> None:
    hwmon = amd(tmp_path)
    (cap,) = AmdCap.find(str(tmp_path / "drm")).caps
    (hwmon / "power1_cap").unlink()
    with pytest.raises(SensorError, match="its cap cannot be read"):
        cap.controls()
