# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for the files of a workload, by its name, into a folder of their own."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from joulelab.data import GENERATORS
from joulelab.errors import InputError, unknown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def generate(
    workload: str,
    out: Path,
    *,
    scale: float = 1.0,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Write the files into `out`, which is made if it is not there; their paths."""
    if workload not in GENERATORS:
        raise unknown("workload with files to generate", workload, GENERATORS)
    module, _, name = GENERATORS[workload].partition(":")
    make: Callable[..., list[Path]] = getattr(importlib.import_module(module), name)
    try:
        # A generator keeps a file that is there; here that might be one of another scale, or the user's own.
        if out.exists() and any(out.iterdir()):
            raise InputError(f"{out} is not empty", cure="give a new folder, or empty this one")
        return make(out, scale=scale, seed=seed, progress=progress)
    except OSError as error:
        raise InputError(
            f"{out} cannot be written: {error.strerror or error}",
            cure="give a folder with room that is yours",
        ) from error
