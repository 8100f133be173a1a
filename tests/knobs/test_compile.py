# SPDX-License-Identifier: Apache-2.0
"""What compiling needs is looked for before a trial starts."""

from __future__ import annotations

import importlib.util
import shutil
from typing import TYPE_CHECKING

import torch

from joulelab.knobs.compile import Compile
from joulelab.train.job import COMPILE

if TYPE_CHECKING:
    import pytest


def test_every_value_but_off_has_its_way() -> None:
    assert set(Compile.parameter.choices) == {"off", *COMPILE}


def test_off_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert Compile().available("off") == ""


def test_without_a_compiler_it_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert (
        Compile().available("on") == "compile 'on' needs a C++ compiler, and 'g++' is not there: install g++"
    )
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert Compile().available("on") == ""


def test_on_a_gpu_triton_and_its_generation_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a card")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (6, 1))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert "this is a card" in Compile().available("on")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    assert Compile().available("on") == ""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install triton" in Compile().available("on")
