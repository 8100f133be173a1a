# SPDX-License-Identifier: Apache-2.0
"""Caps that are files of the kernel: read, write, and say in words why not."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from joulelab.errors import SensorError

if TYPE_CHECKING:
    from pathlib import Path


def number(path: Path) -> int | None:
    """The file as a whole number; None where it is missing, denied, or not a number."""
    try:
        return int(path.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return None


def text(path: Path) -> str:
    """The file's text; empty where it cannot be read."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def write(path: Path, value: int, *, name: str) -> None:
    """One write, as the kernel wants it: it takes a value whole or not at all."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"%d\n" % value)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SensorError(f"{name}: {path}: {_words(error)}", cure=cure([path])) from error


def _words(error: OSError) -> str:
    if error.errno == errno.EROFS:
        return "the file system is read-only, as in a container"
    if error.errno in {errno.EACCES, errno.EPERM} and os.geteuid() == 0:
        return "refused though this is root: locked by the BIOS, or kept from this container"
    return error.strerror or str(error)


def denied(paths: list[Path]) -> str:
    """Why these files cannot be written, as far as one can tell without trying; empty if they can."""
    wrong = [path for path in paths if not os.access(path, os.W_OK)]
    return f"no permission to write {wrong[0]}" if wrong else ""


def cure(paths: list[Path]) -> str:
    """What an administrator does so that this user may set the cap."""
    files = " ".join(str(path) for path in paths)
    return (
        "run as root; or an administrator lets this user write the files, until the next boot:\n"
        f"  sudo chgrp {os.getgid()} {files} && sudo chmod g+w {files}"
    )
