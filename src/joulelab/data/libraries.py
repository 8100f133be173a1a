# SPDX-License-Identifier: Apache-2.0
"""Errors of libraries that are not ours, in our words."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def needed(library: str, *, loader: str) -> Iterator[None]:
    """Around the import of `library`."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"loader '{loader}' needs {library}, which is not installed ({error})",
            cure="pip install 'joulelab[loaders]'",
        ) from error


@contextlib.contextmanager
def reading(path: Path, *, library: str, raises: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Around its work; `raises` is what it raises beside the usual."""
    expected: tuple[type[Exception], ...] = (OSError, ValueError, TypeError, *raises)
    try:
        yield
    except expected as error:
        raise InputError(f"{path} cannot be read by {library}: {error}") from error
