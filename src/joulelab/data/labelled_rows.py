# SPDX-License-Identifier: Apache-2.0
"""Lines that begin with a little text and go on with thousands of numbers, one call of the kernel a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.data import csv_native
from joulelab.data.labelled_parts import Filled, cell, ragged, word

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.data.labelled import Columns
    from joulelab.data.line_blocks import Block

_BACKLOG = 4096
_FINISHED, _BACKLOG_FULL = 0, 1
_QUOTE = ord('"')


def fill(
    path: Path, content: bytearray, block: Block, *, wanted: Columns, separator: str, values: Any, codes: Any
) -> Filled:
    """The rows of one block into `values` and `codes`."""
    assert separator == ","
    # The names of its endings are in the numba kernel, which is not loaded where the compiled one serves.
    kernel = csv_native.kernel()
    data = np.frombuffer(content, np.uint8)
    backlog = np.empty((_BACKLOG, 5), np.int64)
    texts = len(wanted.text)
    numbered: list[dict[bytes, int]] = [{} for _ in range(texts)]
    row = block.row
    start, size = 0, block.stop - block.start
    for line in range(block.row, block.row + block.lines):
        newline = content.find(b"\n", start, size)
        stop = size if newline < 0 else newline
        if stop - start <= 2 and not content[start:stop].strip():
            start = stop + 1
            continue
        at = start
        for k in range(texts):
            text, at = _text(content, at, stop)
            if at < 0:
                raise ragged(path, line=line, cells=k + 1, columns=len(wanted.header))
            codes[row, k] = numbered[k].setdefault(text, len(numbered[k]))
        state: tuple[int, ...] = (_BACKLOG_FULL, at, row, 0, 0, 0)
        while state[0] == _BACKLOG_FULL:
            state = kernel.parse_rows(data, state[1], stop, values, row, state[3], 0, backlog)
            for first, after, _, column, _ in backlog[: state[5]].tolist():
                values[row, column] = cell(
                    path, bytes(content[first:after]), line=line, column=texts + column
                )
        if state[0] != _FINISHED or state[2] != row + 1:
            cells = texts + content[at:stop].count(b",") + 1
            raise ragged(path, line=line, cells=cells, columns=len(wanted.header))
        row += 1
        start = stop + 1
    return Filled(rows=row - block.row, words=tuple(tuple(word(w) for w in found) for found in numbered))


def _text(content: bytearray, at: int, stop: int) -> tuple[bytes, int]:
    """The cell that begins at `at`, and where the next one begins; -1 if there is no next one."""
    quoted = at < stop and content[at] == _QUOTE
    close = content.find(b'"', at + 1, stop) if quoted else -1
    comma = content.find(b",", max(at, close), stop)
    end = stop if comma < 0 else comma
    # A quote inside the cell: it is taken as it stands, as `table_kernel` does.
    plain = close < 0 or bool(content[close + 1 : end].strip(b" \r"))
    text = content[at:end] if plain else content[at + 1 : close]
    return bytes(text), comma + 1 if comma >= 0 else -1
