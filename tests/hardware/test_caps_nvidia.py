# SPDX-License-Identifier: Apache-2.0
"""The cap of a board through NVIDIA's own binding, on a stand-in for the driver's library."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from joulelab.errors import SensorError
from joulelab.hardware.caps_nvidia import CONTROL, NvidiaCap
from joulelab.hardware.device import Limits
from joulelab.hardware.find_caps import find_caps, reopen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from joulelab.hardware.cap import FoundCaps
    from tests.fakes.nvml import FakeNvml

UUID = "GPU-000000b1-1111-2222-3333-444444444444"


@contextmanager
def look(argument: str = "") -> Iterator[FoundCaps]:
    found = NvidiaCap.find(argument)
    try:
        yield found
    finally:
        found.close()


def test_limits_setting_and_reading_back(nvml: FakeNvml) -> None:
    with look("1") as found:
        (cap,) = found.caps
        assert (cap.uid, cap.argument, cap.name) == (f"gpu:{UUID}", UUID, "Fake H200")
        assert cap.limits() == Limits(now_w=500.0, default_w=700.0, min_w=200.0, max_w=700.0)
        assert cap.controls() == {CONTROL: 500_000}
        assert cap.wanted(412.3456) == {CONTROL: 412_346}
        cap.write(CONTROL, 400_000)
        assert cap.controls() == {CONTROL: 400_000}
        assert cap.limits().now_w == 400.0
        assert cap.why_not() == ""
    with look() as found:
        assert [cap.limits().now_w for cap in found.caps] == [500.0, 400.0], "the other board was not touched"


def test_what_is_put_back_is_the_users_limit_not_the_one_in_force(nvml: FakeNvml) -> None:
    nvml.set(now_w=500, other_limit_w=350)
    with look("0") as found:
        (cap,) = found.caps
        assert cap.limits().now_w == 350.0
        assert cap.controls() == {CONTROL: 500_000}


def test_a_driver_without_the_fields(nvml: FakeNvml) -> None:
    nvml.set(now_w=500, has_limits=0)
    with look("0") as found:
        assert found.caps[0].limits() == Limits(now_w=500.0, default_w=700.0, min_w=200.0, max_w=700.0)


def test_out_of_range_is_refused_by_the_driver_too(nvml: FakeNvml) -> None:
    with look("0") as found, pytest.raises(SensorError, match="100 W was refused"):
        found.caps[0].write(CONTROL, 100_000)


def test_a_slice_has_no_cap_of_its_own(nvml: FakeNvml) -> None:
    nvml.set(mig=2)
    with look() as found:
        assert all("the slices of others" in cap.why_not() for cap in found.caps)


def test_hidden_cards(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with look() as found:
        assert not found.caps
        assert "none of 2 GPUs is visible" in found.problems[0].what


def test_no_library(no_nvml: None) -> None:
    with look() as found:
        assert not found.caps
        assert found.problems[0].vendor == "nvidia"


def test_it_is_found_again_whatever_is_visible(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    cap = reopen("nvidia", UUID, f"gpu:{UUID}")
    assert cap.uid == f"gpu:{UUID}"
    cap.close()
    with pytest.raises(SensorError, match="gpu:other is not found any more"):
        reopen("nvidia", UUID, "gpu:other")


def test_the_search_leaves_no_library_open(nvml: FakeNvml) -> None:
    """The fixture fails where one is."""
    found = find_caps("gpu")
    assert len(found.caps) == 2
    found.close()
    assert find_caps("node").caps == ()
