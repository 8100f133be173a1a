# SPDX-License-Identifier: Apache-2.0
"""Other ways to read a numeric CSV file, kept to be compared with ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def pandas_default(path: Path, *, threads: int | None = None) -> Any:
    """`pandas.read_csv` with its defaults and then a cast: what the benchmarks did at first."""
    del threads  # its parser has one
    try:
        import pandas as pd
    except ImportError as error:
        raise InputError("loader 'pandas' needs pandas", cure="pip install 'joulelab[loaders]'") from error
    try:
        return np.ascontiguousarray(pd.read_csv(path, header=None).to_numpy(dtype=np.float32))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read by pandas: {error}") from error


def loadtxt(path: Path, *, threads: int | None = None) -> Any:
    """`numpy.loadtxt`, the fastest of the readers that most people have."""
    del threads  # its parser has one
    try:
        return np.loadtxt(path, delimiter=",", dtype=np.float32, comments=None, ndmin=2)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read by numpy.loadtxt: {error}") from error
