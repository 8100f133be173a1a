# SPDX-License-Identifier: Apache-2.0
"""Waiting for accelerators, without importing a framework."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

from joulelab.meter.meter import Meter
from joulelab.meter.synchronize import Waiter

if TYPE_CHECKING:
    import pytest


def _torch(monkeypatch: pytest.MonkeyPatch, **backends: object) -> list[str]:
    calls: list[str] = []
    torch = ModuleType("torch")
    for name, used in backends.items():
        backend = SimpleNamespace(
            is_initialized=lambda used=used: used, synchronize=lambda name=name: calls.append(name)
        )
        setattr(torch, name, backend)
    monkeypatch.setitem(sys.modules, "torch", torch)
    return calls


def test_only_what_is_in_use_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _torch(monkeypatch, cuda=True, xpu=False)
    Waiter()()
    assert calls == ["cuda"]


def test_a_torch_that_is_half_imported_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    Waiter()()
    half = ModuleType("torch")
    half.cuda = ModuleType("torch.cuda")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", half)
    Waiter()()


def test_mps_is_waited_for_once_it_holds_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    torch = ModuleType("torch")
    held = [0]
    torch.mps = SimpleNamespace(  # type: ignore[attr-defined]
        current_allocated_memory=lambda: held[0], synchronize=lambda: calls.append("mps")
    )
    there = SimpleNamespace(is_available=lambda: True)
    torch.backends = SimpleNamespace(mps=there)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    Waiter()()
    assert calls == []
    held[0] = 1
    Waiter()()
    assert calls == ["mps"]


def test_torch_is_never_imported() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from joulelab.meter.synchronize import Waiter\n"
        "Waiter()(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_device_once_found_is_waited_for_and_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = Waiter()
    wait()  # no torch yet
    calls = _torch(monkeypatch, cuda=False)
    wait()
    assert calls == []
    calls = _torch(monkeypatch, cuda=True)
    wait()
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    wait()
    assert calls == ["cuda", "cuda"]


def test_a_child_looks_for_its_device_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _torch(monkeypatch, cuda=True)
    meter = Meter()
    meter.wait()
    _torch(monkeypatch, cuda=False)  # as a fork finds it: the parent's device must not be touched there
    meter.after_fork()
    meter.wait()
    assert calls == ["cuda"]
