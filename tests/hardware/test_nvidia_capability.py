# SPDX-License-Identifier: Apache-2.0
"""The generation of the boards that a process would use, without a framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from joulelab.hardware.nvidia_capability import capability

if TYPE_CHECKING:
    from tests.fakes.nvml import FakeNvml


def test_the_least_capable_visible_board_decides(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.set(cc_major=8, cc_minor=6)
    assert capability() == ("Fake H200", (8, 6))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert capability() == ("", None)


@pytest.mark.usefixtures("no_nvml")
def test_without_a_driver_there_is_no_board() -> None:
    assert capability() == ("", None)
