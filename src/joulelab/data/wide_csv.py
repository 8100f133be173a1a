# SPDX-License-Identifier: Apache-2.0
"""A numeric CSV file without a header into one float32 array: `read(path)`.

Every value is the float64 nearest to its text, cast to float32. Blank cells and NA are NaN. Rows are split
over threads at newlines; a kernel (`csv_native` chooses it) does the parsing, and what it does not settle (a
quoted number, NA, inf, a decimal too close to call) comes back here as text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.data import csv_native
from joulelab.data.file_bytes import opened
from joulelab.data.line_blocks import cut, each, texts
from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from joulelab.data.file_bytes import Source
    from joulelab.data.line_blocks import Block

Floats = np.ndarray[tuple[int, int], np.dtype[np.float32]]

_BACKLOG = 4096
_NUMBER = re.compile(rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity)", re.IGNORECASE)
_MISSING = frozenset(b"|NA|N/A|n/a|#N/A|<NA>|NaN|nan|-nan|null|NULL|None".split(b"|"))


def read(path: Path | str, *, threads: int | None = None, kernel: str | None = None) -> Floats:
    """The numbers of the CSV file `path`, rows by columns; by default on all processors it may use.

    `kernel` is the parser, one of `csv_native.KERNELS`; by default the compiled one where it was built.
    """
    parser = csv_native.kernel(kernel)
    with opened(Path(path)) as source:
        first = source.text_begins()
        columns = _columns(source, first)
        runs = cut(source, first, threads=threads, kernel=parser)
        blocks = [block for run in runs for block in run]
        out: Floats = np.empty((blocks[-1].row + blocks[-1].lines, columns), np.float32)

        def fill(run: Sequence[Block]) -> list[int]:
            backlog = np.empty((_BACKLOG, 5), np.int64)
            return [
                _parse(source, block, buffer, out=out, backlog=backlog, parser=parser)
                for block, buffer in texts(source, run)
            ]

        filled = [rows for run in each(runs, fill) for rows in run]
    return _close_gaps(out, blocks, filled)


def _columns(source: Source, first: int) -> int:
    """Cells of the first line that is not blank."""
    while first < source.size:
        line = source.line(first)
        if line.strip():
            return line.count(b",") + 1
        first += len(line)
    raise InputError(f"{source.path} holds blank lines and nothing else", cure="give a CSV file of numbers")


def _parse(
    source: Source, block: Block, buffer: bytearray, *, out: Floats, backlog: Any, parser: ModuleType
) -> int:
    """Fill the rows of one block; the number of rows it held."""
    data = np.frombuffer(buffer, np.uint8)
    stop = block.stop - block.start
    state = (parser.BACKLOG_FULL, 0, block.row, 0, block.row, 0)
    while state[0] == parser.BACKLOG_FULL:
        _, position, row, column, line, _ = state
        state = parser.parse_rows(data, position, stop, out, row, column, line, backlog)
        for first, after, cell_row, cell_column, cell_line in backlog[: state[5]].tolist():
            text = bytes(buffer[first:after])
            out[cell_row, cell_column] = cell(source.path, text, line=cell_line, column=cell_column)
    ended, position, row, column, line, _ = state
    if ended == parser.MORE_ROWS:
        raise source.changed()
    if ended != parser.FINISHED:
        raise _ragged(source.path, bytes(buffer[:stop]), position, line=line, columns=out.shape[1])
    return int(row) - block.row


def cell(path: Path, text: bytes, *, line: int, column: int) -> np.float32:
    """One cell by Python's own conversion."""
    inner = text.strip()
    if len(inner) > 1 and inner[:1] == b'"' == inner[-1:]:
        inner = inner[1:-1].strip()
    if inner in _MISSING:
        return np.float32(np.nan)
    # float() alone would also take underscores and the digits of other scripts.
    if not _NUMBER.fullmatch(inner):
        shown = text.decode("utf-8", "replace").strip()
        shown = shown if len(shown) <= 40 else shown[:40] + "..."
        cure = "every cell must be a number, blank or NA"
        if line == 0:
            cure += "; if the first row is a header, take it off"
        raise InputError(f"{path}: row {line + 1}, column {column + 1}: '{shown}' is not a number", cure=cure)
    with np.errstate(over="ignore", under="ignore"):
        return np.float32(float(inner))


def _ragged(path: Path, block: bytes, position: int, *, line: int, columns: int) -> InputError:
    start = block.rfind(b"\n", 0, position) + 1
    text = block[start:].partition(b"\n")[0]
    cells = text.count(b",") + 1
    where = f"row {line + 1}, column {min(cells, columns) + (cells > columns)}"
    shown = text.rpartition(b",")[2] if cells < columns else text.split(b",")[columns]
    return InputError(
        f"{path}: {where}: the row has {cells} cells where the first has {columns}, "
        f"near '{shown.decode('utf-8', 'replace').strip()[:40]}'",
        cure="give every row the same number of cells",
    )


def _close_gaps(out: Floats, blocks: Sequence[Block], filled: Sequence[int]) -> Floats:
    """`out` without the rows that were kept for lines that turned out to be blank."""
    if sum(filled) == len(out):
        return out
    end = 0
    for block, rows in zip(blocks, filled, strict=True):
        out[end : end + rows] = out[block.row : block.row + rows]
        end += rows
    return np.ascontiguousarray(out[:end])
