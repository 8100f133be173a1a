# SPDX-License-Identifier: Apache-2.0
"""A stand-in for NVIDIA's library, and machines without any."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.nvml import FakeNvml, compiled


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("fakenvml"))


@pytest.fixture
def nvml(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvml]:
    """NVIDIA's binding on top of the stand-in: two boards, square wave."""
    import pynvml

    config = tmp_path / "nvml.config"
    config.write_text("", encoding="ascii")
    monkeypatch.setenv("FAKENVML_CONFIG", str(config))
    monkeypatch.setenv("JOULELAB_NVML_LIBRARY", str(nvml_library))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    # The binding remembers its library and the functions in it for as long as the process lives.
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    yield FakeNvml(config)
    lib = pynvml.nvmlLib
    still_open = lib is not None and lib.nvmlShutdown() == 0
    while lib is not None and lib.nvmlShutdown() == 0:
        pass
    assert not still_open, "a test left a device open"


@pytest.fixture
def no_nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose NVIDIA library cannot be loaded, whatever this one has."""
    import pynvml

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setenv("JOULELAB_NVML_LIBRARY", str(tmp_path / "there is none.so"))
