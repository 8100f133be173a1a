# SPDX-License-Identifier: Apache-2.0
"""The compiled CSV reader; csv_kernel.py says what its functions do."""

from typing import Any

import numpy as np

from joulelab.data.csv_kernel import Bytes

FINISHED: int
BACKLOG_FULL: int
TOO_FEW: int
TOO_MANY: int
MORE_ROWS: int  # than `out` has: the file changed since its lines were counted
VARIANTS: tuple[str, ...]  # that this processor runs, the fastest first

def count_newlines(data: Bytes, start: int, stop: int, variant: str | None = None, /) -> int: ...
def parse_rows(
    data: Bytes,
    start: int,
    stop: int,
    out: np.ndarray[Any, np.dtype[np.float32]],
    row: int,
    column: int,
    line: int,
    backlog: np.ndarray[Any, np.dtype[np.int64]],
    variant: str | None = None,
    /,
) -> tuple[int, int, int, int, int, int]: ...
