# SPDX-License-Identifier: Apache-2.0
"""Lines, whole, whatever the disk does."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from joulelab.meter import writer
from joulelab.meter.writer import Appender

if TYPE_CHECKING:
    import pytest


def test_lines_are_whole_and_found_again(weird_tmp_path: Path) -> None:
    path = weird_tmp_path / "lines"
    file = Appender(path)
    places = [file.append(f"line {i} " + "x" * (i * 100)) for i in range(100)]
    assert file.line(places[99]).startswith("line 99 ")
    assert file.line(places[0]) == "line 0 "
    file.close()
    assert len(path.read_text().splitlines()) == 100


def test_a_torn_last_line_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("whole\ntor")
    file = Appender(path)
    place = file.append("mine")
    file.flush()
    assert file.line(place) == "mine"
    file.close()
    assert path.read_text() == "whole\ntor\nmine\n"


def test_a_full_disk_is_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines"
    file = Appender(path)
    file.append("first")
    file.flush()
    real = os.write
    full = [True]

    def write(descriptor: int, data: bytes) -> int:
        if full[0]:
            if len(data) > 3:
                return real(descriptor, bytes(data[:3]))  # what still fitted
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    places = [file.append(f"line {i}") for i in range(50)]
    file.flush()
    assert "No space left" in file.fault
    assert file.line(places[7]) == "line 7"
    full[0] = False
    file.flush()
    assert not file.fault
    file.close()
    assert path.read_text().splitlines() == ["first", *(f"line {i}" for i in range(50))]


def test_memory_stays_bounded_while_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Appender(tmp_path / "lines")

    def write(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        for i in range(100):
            file.append(f"{i} " + "x" * 100_000)
        assert len(file._pending) <= writer.KEPT
    file.close()
    assert (tmp_path / "lines").read_text().splitlines()[-1].startswith("99 ")
