# SPDX-License-Identifier: Apache-2.0
"""A file with a header line, columns of text and columns of numbers: `read(path, text=...)`.

Numbers are read as in `wide_csv`: the float64 nearest to the text, cast to float32; blanks and NA are NaN.
Two ways lead there. Where the text stands in front and thousands of numbers follow, Python cuts the text off
each line and the kernel of `csv_kernel` takes the rest; any other table goes through `table_kernel`, cell by
cell.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.data import csv_native, labelled_rows, labelled_table
from joulelab.data.file_bytes import opened
from joulelab.data.labelled import Columns, Labelled, columns
from joulelab.data.labelled_parts import Filled, join_words
from joulelab.data.line_blocks import Block, cut, each, texts
from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDE = 64  # columns of numbers from which a line is worth a call


def read(
    path: Path | str,
    *,
    text: Sequence[str] = (),
    numbers: Sequence[str] | None = None,
    separator: str = ",",
    threads: int | None = None,
) -> Labelled:
    """The columns named in `text` and `numbers`; `numbers` None means every column that is not text."""
    path = Path(path)
    kernel = csv_native.kernel()
    with opened(path) as source:
        first = source.text_begins()
        line = source.line(first)
        wanted = columns(path, line.rstrip(b"\r\n"), text=text, numbers=numbers, separator=separator)
        runs = cut(source, first + len(line), threads=threads, kernel=kernel)
        blocks = [block for run in runs for block in run]
        if not blocks:
            raise InputError(f"{path} has a header and no rows", cure="give the whole file")
        rows = blocks[-1].row + blocks[-1].lines
        wide = separator == "," and wanted.text_first and len(wanted.numbers) >= _WIDE
        way = labelled_rows.fill if wide else labelled_table.fill
        values = np.empty((rows, len(wanted.numbers)), np.float32)
        codes = np.empty((rows, len(wanted.text)), np.int32)
        into: dict[str, Any] = {"wanted": wanted, "separator": separator, "values": values, "codes": codes}

        def fill(run: Sequence[Block]) -> list[Filled]:
            return [way(path, buffer, block, **into) for block, buffer in texts(source, run)]

        filled = [piece for run in each(runs, fill) for piece in run]
    return _assemble(path, blocks, filled, wanted=wanted, values=values, codes=codes)


def _assemble(
    path: Path,
    blocks: Sequence[Block],
    filled: Sequence[Filled],
    *,
    wanted: Columns,
    values: np.ndarray[tuple[int, int], np.dtype[np.float32]],
    codes: np.ndarray[tuple[int, int], np.dtype[np.int32]],
) -> Labelled:
    """One table of the blocks: rows kept for blank lines taken out, words of all numbered as one."""
    end = 0
    for block, piece in zip(blocks, filled, strict=True):
        if end != block.row:
            values[end : end + piece.rows] = values[block.row : block.row + piece.rows]
            codes[end : end + piece.rows] = codes[block.row : block.row + piece.rows]
        end += piece.rows
    if end == 0:
        raise InputError(f"{path} has a header and no rows", cure="give the whole file")
    rows = [piece.rows for piece in filled]
    return Labelled(
        names=wanted.names(wanted.numbers),
        values=values[:end],
        texts={
            wanted.header[k]: join_words([piece.words[n] for piece in filled], codes[:end, n], rows=rows)
            for n, k in enumerate(wanted.text)
        },
    )
