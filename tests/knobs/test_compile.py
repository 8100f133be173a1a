# SPDX-License-Identifier: Apache-2.0
"""What compiling needs is looked for before a trial starts."""

from __future__ import annotations

import importlib.util
import shutil
import types

import pytest
import torch
import torch._dynamo

from joulelab.knobs import compile as compile_knob
from joulelab.knobs.compile import Compile
from joulelab.train.job import COMPILE


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


@pytest.mark.parametrize("name", ["TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"])
def test_what_is_switched_off_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    assert Compile().available("on") == f"compile 'on' is switched off by {name}=1: unset it"
    assert Compile().available("off") == ""


def dynamo() -> tuple[object, ...]:
    config = torch._dynamo.config
    return (
        config.recompile_limit,
        config.accumulated_recompile_limit,
        config.fail_on_recompile_limit_hit,
        config.suppress_errors,
    )


def test_giving_up_is_an_error_while_the_knob_is_on_and_no_longer() -> None:
    found = dynamo()
    with Compile().applied("on"):
        assert dynamo() == (128, 1024, True, False)
        with Compile().applied("off"):
            assert dynamo() == (128, 1024, True, False)
    assert dynamo() == found
    with pytest.raises(KeyboardInterrupt), Compile().applied("max-autotune"):
        raise KeyboardInterrupt
    assert dynamo() == found
    with Compile().applied("off"):
        assert dynamo() == found


def test_a_higher_limit_is_left_as_it_is() -> None:
    with torch._dynamo.config.patch(recompile_limit=500, suppress_errors=True):
        with Compile().applied("on"):
            assert dynamo() == (500, 1024, True, False)
        assert dynamo() == (500, 256, False, True)


def test_an_older_torch_has_other_names() -> None:
    old = types.SimpleNamespace(
        cache_size_limit=8, accumulated_cache_size_limit=256, fail_on_cache_limit_hit=False
    )
    assert compile_knob.settings(old) == {
        "suppress_errors": False,
        "cache_size_limit": 128,
        "accumulated_cache_size_limit": 1024,
        "fail_on_cache_limit_hit": True,
    }
    assert compile_knob.settings(types.SimpleNamespace()) == {"suppress_errors": False}
