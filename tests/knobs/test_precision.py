# SPDX-License-Identifier: Apache-2.0
"""What a device lacks is said in words, and the process-wide switches are put back."""

from __future__ import annotations

import contextlib

import pytest
import torch

from joulelab.hardware import nvidia_capability
from joulelab.knobs.precision import PrecisionKnob


def switches() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize("value", PrecisionKnob.parameter.choices)
def test_sets_both_switches_and_puts_them_back(value: str) -> None:
    before = switches()
    assert before[0] != before[1], "torch's defaults differ: that is why both are set"
    with contextlib.suppress(KeyError), PrecisionKnob().applied(value):
        assert switches() == (value == "tf32",) * 2
        raise KeyError
    assert switches() == before


def test_without_a_gpu_tf32_and_fp8_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused = {value: PrecisionKnob().available(value) for value in PrecisionKnob.parameter.choices}
    for value in ("tf32", "fp8"):
        said = refused.pop(value)
        assert said == f"precision '{value}' needs an NVIDIA GPU, and there is none to be used here"
    assert set(refused.values()) == {""}


@pytest.mark.parametrize(
    ("capability", "refused"),
    [((7, 0), "tf32 bf16 fp8"), ((8, 0), "fp8"), ((8, 9), ""), ((9, 0), "")],
    ids=str,
)
def test_on_a_gpu_what_its_generation_lacks_is_refused(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], refused: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a card")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: capability >= (8, 0))
    said = {value: PrecisionKnob().available(value) for value in PrecisionKnob.parameter.choices}
    assert {value for value, words in said.items() if words} == set(refused.split())
    assert all("a card" in words for words in said.values() if words)


def test_a_gpu_of_another_vendor_has_neither_of_nvidias_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "another card")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    said = {value: PrecisionKnob().available(value) for value in PrecisionKnob.parameter.choices}
    assert {value for value, words in said.items() if words} == {"tf32", "fp8"}


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        (("", None), "tf32 fp8"),
        (("a card", None), ""),
        (("a card", (7, 0)), "tf32 bf16 fp8"),
        (("a card", (8, 6)), "fp8"),
        (("a card", (9, 0)), ""),
    ],
    ids=str,
)
def test_planning_refuses_what_the_driver_says_is_not_there(
    monkeypatch: pytest.MonkeyPatch, found: tuple[str, tuple[int, int] | None], refused: str
) -> None:
    monkeypatch.setattr(nvidia_capability, "capability", lambda: found)
    said = {value: PrecisionKnob().refused_here(value) for value in PrecisionKnob.parameter.choices}
    assert {value for value, words in said.items() if words} == set(refused.split())
