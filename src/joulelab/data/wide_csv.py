# SPDX-License-Identifier: Apache-2.0
"""A numeric CSV file without a header into one float32 array: `read(path)`.

Every value is the float64 nearest to its text, cast to float32. Blank cells and NA are NaN. Rows are split
over threads at newlines; a kernel (`csv_native` chooses it) does the parsing, and what it does not settle (a
quoted number, NA, inf, a decimal too close to call) comes back here as text.
"""

from __future__ import annotations

import itertools
import mmap
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.data import csv_native
from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = np.ndarray[tuple[int, int], np.dtype[np.float32]]

_BACKLOG = 4096
_BYTES_A_THREAD = 1 << 20  # below this a thread costs more than it saves
_NUMBER = re.compile(rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity)", re.IGNORECASE)
_MISSING = frozenset(b"|NA|N/A|n/a|#N/A|<NA>|NaN|nan|-nan|null|NULL|None".split(b"|"))


@dataclass(frozen=True)
class _Part:
    """A run of whole lines: its bytes, the line and the row it begins with."""

    start: int
    stop: int
    line: int
    row: int


def read(path: Path | str, *, threads: int | None = None, kernel: str | None = None) -> Floats:
    """The numbers of the CSV file `path`, rows by columns; by default on all processors it may use.

    `kernel` is the parser, one of `csv_native.KERNELS`; by default the compiled one where it was built.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise InputError(f"{path} is empty", cure="give a CSV file of numbers")
            # Not closed by hand: a mapping cannot be while an array looks into it, and an error holds that
            # array.
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}", cure="give a CSV file of numbers"
        ) from error
    data = np.frombuffer(mapped, dtype=np.uint8)
    return _read(path, data, threads=threads, parser=csv_native.kernel(kernel))


def _read(path: Path, data: Any, *, threads: int | None, parser: ModuleType) -> Floats:
    first = 3 if data[:3].tobytes() == b"\xef\xbb\xbf" else 0  # the mark that some tools put before UTF-8
    columns = _columns(path, data, first)
    wanted = threads or min(len(os.sched_getaffinity(0)), 1 + (len(data) - first) // _BYTES_A_THREAD)
    bounds = _split(data, first, wanted)
    with ThreadPoolExecutor(max(1, len(bounds) - 1)) as pool:
        spans = list(itertools.pairwise(bounds))
        newlines = list(pool.map(lambda span: parser.count_newlines(data, *span), spans))
        last_is_open = data[-1] != ord("\n")
        lines = np.cumsum([0, *newlines])
        out: Floats = np.empty((int(lines[-1]) + int(last_is_open), columns), np.float32)
        parts = [
            _Part(start, stop, int(line), int(line))
            for (start, stop), line in zip(spans, lines[:-1], strict=True)
        ]
        # All are waited for, and the first error in the order of the file is the one that is raised.
        filled = list(pool.map(lambda part: _parse(path, data, part, out, parser), parts))
    return _close_gaps(out, parts, filled)


def _columns(path: Path, data: Any, first: int) -> int:
    """Cells of the first line that is not blank."""
    start = first
    while start < len(data):
        stop = _line_end(data, start)
        line: bytes = data[start:stop].tobytes()
        if line.strip():
            return line.count(b",") + 1
        start = stop
    raise InputError(f"{path} holds blank lines and nothing else", cure="give a CSV file of numbers")


def _line_end(data: Any, start: int) -> int:
    """The position after the newline that ends the line around `start`."""
    step = 1 << 16
    for block in range(start, len(data), step):
        found = np.flatnonzero(data[block : block + step] == ord("\n"))
        if len(found):
            return block + int(found[0]) + 1
    return len(data)


def _split(data: Any, first: int, parts: int) -> list[int]:
    """Positions at line starts that cut the file into at most `parts` pieces of about equal size."""
    bounds = [first]
    for k in range(1, parts):
        at = first + (len(data) - first) * k // parts
        at = _line_end(data, at)
        if bounds[-1] < at < len(data):
            bounds.append(at)
    return [*bounds, len(data)]


def _parse(path: Path, data: Any, part: _Part, out: Floats, parser: ModuleType) -> int:
    """Fill the rows of one part; the number of rows it held."""
    backlog = np.empty((_BACKLOG, 5), np.int64)
    state = (parser.BACKLOG_FULL, part.start, part.row, 0, part.line, 0)
    while state[0] == parser.BACKLOG_FULL:
        _, position, row, column, line, _ = state
        state = parser.parse_rows(data, position, part.stop, out, row, column, line, backlog)
        for first, after, cell_row, cell_column, cell_line in backlog[: state[5]].tolist():
            text = data[first:after].tobytes()
            out[cell_row, cell_column] = _cell(path, text, line=cell_line, column=cell_column)
    ended, position, row, column, line, _ = state
    if ended == getattr(parser, "MORE_ROWS", None):
        raise InputError(
            f"{path} changed while it was read: there are more than the {len(out)} rows that were counted",
            cure="read it when nothing writes it",
        )
    if ended != parser.FINISHED:
        raise _ragged(path, data, position, line=line, columns=out.shape[1])
    return int(row) - part.row


def _cell(path: Path, text: bytes, *, line: int, column: int) -> np.float32:
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


def _ragged(path: Path, data: Any, position: int, *, line: int, columns: int) -> InputError:
    start = position
    while start > 0 and data[start - 1] != ord("\n"):
        start -= 1
    text = data[start : _line_end(data, start)].tobytes()
    cells = text.count(b",") + 1
    where = f"row {line + 1}, column {min(cells, columns) + (cells > columns)}"
    shown = text.rpartition(b",")[2] if cells < columns else text.split(b",")[columns]
    return InputError(
        f"{path}: {where}: the row has {cells} cells where the first has {columns}, "
        f"near '{shown.decode('utf-8', 'replace').strip()[:40]}'",
        cure="give every row the same number of cells",
    )


def _close_gaps(out: Floats, parts: Sequence[_Part], filled: Sequence[int]) -> Floats:
    """`out` without the rows that were kept for lines that turned out to be blank."""
    if sum(filled) == len(out):
        return out
    end = 0
    for part, rows in zip(parts, filled, strict=True):
        out[end : end + rows] = out[part.row : part.row + rows]
        end += rows
    return np.ascontiguousarray(out[:end])
