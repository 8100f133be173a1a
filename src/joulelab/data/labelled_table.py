# SPDX-License-Identifier: Apache-2.0
"""Tables of text and numbers in any order, and of any columns of them, through `table_kernel`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.data.labelled_parts import Filled, cell, ragged, word

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.data.labelled import Columns
    from joulelab.data.line_blocks import Block

_BACKLOG = 4096
_WORDS = 1 << 10  # room for the words of a column at first; it is doubled when they are that many


def fill(
    path: Path, content: bytearray, block: Block, *, wanted: Columns, separator: str, values: Any, codes: Any
) -> Filled:
    """The rows of one block into `values` and `codes`."""
    from joulelab.data import table_kernel

    data = np.frombuffer(content, np.uint8)
    kinds = np.full(len(wanted.header), table_kernel.SKIP, np.int64)
    place = np.zeros(len(wanted.header), np.int64)
    target = np.full(len(wanted.header), -1, np.int64)
    for kind, positions in ((table_kernel.TEXT, wanted.text), (table_kernel.NUMBER, wanted.numbers)):
        kinds[list(positions)] = kind
        place[list(positions)] = target[list(positions)] = np.arange(len(positions))
    # Blank cells are left as they are.
    values[block.row : block.row + block.lines] = np.nan
    words = np.empty((len(wanted.text), _WORDS, 2), np.int64)
    slots = np.full((len(wanted.text), 2 * _WORDS), -1, np.int64)
    counts = np.zeros(len(wanted.text), np.int64)
    backlog = np.empty((max(_BACKLOG, len(wanted.numbers)), 5), np.int64)
    at, row, line = 0, block.row, block.row
    stop = block.stop - block.start
    while True:
        ended, at, row, line, left = table_kernel.scan(
            data,
            (at, stop),
            ord(separator),
            kinds,
            place,
            values,
            codes,
            words,
            slots,
            counts,
            backlog,
            (row, line),
        )
        for first, after, cell_row, column, cell_line in backlog[:left].tolist():
            values[cell_row, target[column]] = cell(
                path, bytes(content[first:after]), line=cell_line, column=column
            )
        if ended == table_kernel.WORDS_FULL:
            words, slots = _grown(content, words, counts)
        elif ended != table_kernel.BACKLOG_FULL:
            break
    if ended != table_kernel.FINISHED:
        text = content[at:stop].split(b"\n", 1)[0]
        cells = text.count(separator.encode()) + 1
        raise ragged(path, line=line, cells=cells, columns=len(wanted.header))
    found = tuple(
        tuple(word(content[first:after]) for first, after in words[k, : counts[k]].tolist())
        for k in range(len(wanted.text))
    )
    return Filled(rows=row - block.row, words=found)


def _grown(content: bytearray, words: Any, counts: Any) -> tuple[Any, Any]:
    """Tables of twice the size with the same words in them."""
    from joulelab.data import table_kernel

    data = np.frombuffer(content, np.uint8)
    more = np.empty((words.shape[0], 2 * words.shape[1], 2), np.int64)
    slots = np.full((words.shape[0], 4 * words.shape[1]), -1, np.int64)
    for k, count in enumerate(counts.tolist()):
        table_kernel.put_words(data, words[k], more[k], slots[k], count)
    return more, slots
