# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is: locks that a runner takes and its worker inherits.

A claim names the runner. But a runner that is killed may leave its worker training: the kernel holds a lock
until both have gone, so nobody starts the trial a second time, or another one beside it on the same devices.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import socket
from typing import TYPE_CHECKING

from joulelab.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from joulelab.records.layout import StudyFolder, TrialFolder

# File systems without locks (some network ones): the claim alone has to do.
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
# Runners that see different devices do not disturb each other's figures.
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")


@contextlib.contextmanager
def turn(folder: TrialFolder) -> Iterator[int | None]:
    """The open lock of the trial, to be inherited by its worker; None where another process has it."""
    with _held(folder.turn) as descriptor:
        yield descriptor if _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB) else None


def wait_for_turn(folder: TrialFolder) -> None:
    """Block until nobody runs the trial. Another may have it again by the time this returns."""
    with _held(folder.turn) as descriptor:
        _lock(descriptor, fcntl.LOCK_EX)


@contextlib.contextmanager
def machine_turn(folder: StudyFolder, *, on_wait: Callable[[], None] = lambda: None) -> Iterator[int]:
    """The open lock of this machine's devices within a study: two trials at once spoil each other's figures.

    Blocks while another process has it, after saying so by `on_wait`.
    """
    seen = "\n".join(os.environ.get(name, "all") for name in _VISIBLE)
    name = f".machine-{socket.gethostname()}-{hashlib.sha256(seen.encode()).hexdigest()[:8]}.lock"
    with _held(folder.path / name) as descriptor:
        if not _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
            on_wait()
            _lock(descriptor, fcntl.LOCK_EX)
        yield descriptor


def _lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


@contextlib.contextmanager
def _held(path: Path) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise RecordError(
            f"{path} cannot be opened: {error.strerror}", cure="make the folder writable"
        ) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)
