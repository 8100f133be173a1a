# SPDX-License-Identifier: Apache-2.0
"""Every vendor of caps keeps to one contract, and a trial gets the caps of what it uses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from joulelab.errors import SensorError
from joulelab.hardware import AUTOMATIC_CAPS, CAPS, DEVICES
from joulelab.hardware.find_caps import find_caps, reopen
from tests.fakes.caps import package
from tests.hardware.test_caps_hwmon import amd, card

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=sorted(CAPS))
def name(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A device that is capped at 500 W or less, by each vendor."""
    vendor: str = request.param
    if vendor == "nvidia":
        request.getfixturevalue("nvml")
        yield "nvidia:0"
    elif vendor == "rapl":
        package(tmp_path)
        yield f"rapl:{tmp_path}"
    elif vendor == "amd":
        amd(tmp_path)
        yield f"amd:{tmp_path / 'drm'}"
    elif vendor == "intel_gpu":
        card(tmp_path, 0, name="i915", power1_max=250_000_000, power1_rated_max=300_000_000)
        yield f"intel_gpu:{tmp_path / 'drm'}"
    elif vendor == "cray":
        (tmp_path / "accel0_power_cap").write_text("400 W 1 us\n", encoding="ascii")
        yield f"cray:{tmp_path}"
    elif vendor == "fake":
        limits = {"now_w": 500, "default_w": 700, "min_w": 200, "max_w": 700}
        (tmp_path / "card.json").write_text(json.dumps({"cap": limits}), encoding="utf-8")
        yield f"fake:{tmp_path / 'card.json'}"
    else:
        pytest.fail(f"'{vendor}' has no provider: say above how to make one without its hardware")


def test_a_cap_is_set_read_back_and_found_again(name: str) -> None:
    found = find_caps("", [name])
    (cap,) = found.caps
    assert cap.vendor == name.partition(":")[0]
    assert cap.kind in cap.kinds
    assert cap.uid.startswith(f"{cap.kind}:")
    limits = cap.limits()
    assert limits.now_w > 0.0
    assert not limits.max_w or limits.max_w >= limits.now_w
    if cap.why_not():
        assert cap.vendor == "cray", "these alone are only shown"
        assert cap.wanted(220.0) == {}
        return
    before = cap.controls()
    wanted = cap.wanted(220.0)
    assert set(wanted) <= set(before), "whatever is moved is known beforehand"
    for control, value in wanted.items():
        cap.write(control, value)
    assert cap.limits().now_w == pytest.approx(220.0)
    again = reopen(cap.vendor, cap.argument, cap.uid)
    assert all(again.same(control, again.controls()[control], value) for control, value in wanted.items())
    for control, value in before.items():
        again.write(control, value)
    assert cap.controls() == before
    again.close()
    found.close()


def test_what_is_looked_for_unasked() -> None:
    assert set(AUTOMATIC_CAPS) < set(CAPS)
    assert not {"fake", "cray"} & set(AUTOMATIC_CAPS)
    assert "fake" in DEVICES


def test_the_variable_that_names_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path)
    monkeypatch.setenv("JOULELAB_DEVICES", f"estimate, rapl:{tmp_path}")
    assert [cap.uid for cap in find_caps("cpu").caps] == ["cpu:package-0"]


def test_no_real_cap_beside_a_simulated_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joulelab.hardware.find_caps._look", lambda *_: pytest.fail("it was looked for"))
    found = find_caps("gpu", ["replay:power.csv"])
    assert not found.caps
    assert "no real device is capped for a simulated one" in found.problems[0].what


def test_a_vendor_that_is_not_in_the_table() -> None:
    with pytest.raises(SensorError, match="no vendor 'elsewhere' has caps"):
        reopen("elsewhere", "", "gpu:0")
