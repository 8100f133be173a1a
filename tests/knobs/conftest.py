# SPDX-License-Identifier: Apache-2.0
"""A machine whose caps can be set, and leases in a folder of the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fakes.caps import Machine, libraries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def cap_libraries(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return libraries(tmp_path_factory.mktemp("caps"))


@pytest.fixture
def machine(
    cap_libraries: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    """Two boards and two packages, seen by this process and by those it starts."""
    import pynvml

    library, shim = cap_libraries
    made = Machine.make(tmp_path / "machine", nvml_library=library, shim=shim)
    # The shim is not loaded into this process: what it writes to the made-up files is not in their log.
    for name, value in made.environment().items():
        if name.startswith(("FAKENVML", "JOULELAB")):
            monkeypatch.setenv(name, value)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    # The binding remembers its library and the functions in it for as long as the process lives.
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    yield made
    lib = pynvml.nvmlLib
    still_open = lib is not None and lib.nvmlShutdown() == 0
    while lib is not None and lib.nvmlShutdown() == 0:
        pass
    assert not still_open, "a test left a device open"
