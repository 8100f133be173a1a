# SPDX-License-Identifier: Apache-2.0
"""Files of the kernel as caps: what they hold, and refusals in words with a cure."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from joulelab.errors import SensorError
from joulelab.hardware import cap_file

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("content", "wanted"), [("205000000\n", 205_000_000), ("400 W 12 us\n", 400), ("", None), ("none", None)]
)
def test_numbers(tmp_path: Path, content: str, wanted: int | None) -> None:
    (tmp_path / "file").write_text(content, encoding="ascii")
    assert cap_file.number(tmp_path / "file") == wanted
    assert cap_file.number(tmp_path / "none") is None


def test_a_write_is_one_write_and_makes_no_file(tmp_path: Path) -> None:
    file = tmp_path / "limit"
    with pytest.raises(SensorError, match="No such file"):
        cap_file.write(file, 5, name="package-0")
    assert not file.exists()
    file.write_text("9\n", encoding="ascii")
    cap_file.write(file, 5, name="package-0")
    assert file.read_text(encoding="ascii") == "5\n"


@pytest.mark.parametrize(
    ("code", "user", "words"),
    [
        (errno.EACCES, 0, "refused though this is root: locked by the BIOS"),
        (errno.EACCES, 1000, "Permission denied"),
        (errno.EROFS, 0, "read-only, as in a container"),
        (errno.EINVAL, 0, "Invalid argument"),
    ],
)
def test_refusals_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, user: int, words: str
) -> None:
    def refuse(*arguments: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(SensorError, match=words) as refused:
        cap_file.write(tmp_path / "limit", 5, name="package-0")
    assert f"chmod g+w {tmp_path / 'limit'}" in refused.value.cure
