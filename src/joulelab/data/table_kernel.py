# SPDX-License-Identifier: Apache-2.0
"""The compiled part of the reader of mixed tables: lines in, float32 and word numbers out.

A number is parsed by `csv_kernel`, with its exactness. A text is looked up in a hash table of the words that
its column has had so far, and only its number is kept. Importing this loads numba.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np

from joulelab.data import csv_kernel

if TYPE_CHECKING:
    from collections.abc import Callable

SKIP, NUMBER, TEXT = 0, 1, 2

# How a call of `scan` ended.
FINISHED = 0
BACKLOG_FULL = 1
WORDS_FULL = 2
TOO_FEW = 3
TOO_MANY = 4
MORE_ROWS = 5  # than `numbers` has: nothing was written beyond it

_NEWLINE, _RETURN, _SPACE, _QUOTE, _COMMA = 10, 13, 32, 34, 44

_parse_rows = csv_kernel.parse_rows


def _find_word(  # noqa: PLR0917  numba passes by position
    data: Any, first: int, after: int, words: Any, slots: Any, count: int
) -> int:
    """The number of the word data[first:after]; `count`, and a place in the table, if it is new."""
    mask = slots.shape[0] - 1
    mixed = np.uint64(1469598103934665603)
    for i in range(first, after):
        mixed = (mixed ^ np.uint64(data[i])) * np.uint64(1099511628211)
    at = np.int64((mixed ^ (mixed >> np.uint64(29))) & np.uint64(mask))
    length = after - first
    while slots[at] >= 0:
        known: int = slots[at]
        begin = words[known, 0]
        if words[known, 1] - begin == length:
            same = True
            for k in range(length):
                if data[begin + k] != data[first + k]:
                    same = False
                    break
            if same:
                return known
        at = (at + 1) & mask
    slots[at] = count
    words[count, 0] = first
    words[count, 1] = after
    return count


def _scan(  # noqa: PLR0912, PLR0913, PLR0915, PLR0917  a kernel: by position, and one loop over the bytes
    data: Any,
    span: tuple[int, int],
    separator: int,
    kinds: Any,
    place: Any,
    numbers: Any,
    codes: Any,
    words: Any,
    slots: Any,
    counts: Any,
    backlog: Any,
    at: tuple[int, int],
) -> tuple[int, int, int, int, int]:
    """Read whole lines from span[0] to span[1] into rows from at[0] on; at[1] is the number of the line.

    kinds[k] and place[k] say what column k is and where it goes. Returns (how it ended, position, row, line,
    backlog used); the position is always the start of a line, so a call can be repeated from there.
    """
    i, stop = span
    row, line = at
    columns = kinds.shape[0]
    limit = words.shape[1]
    used = 0
    while i < stop:
        begin = i
        j = i
        while j < stop and (data[j] == _SPACE or data[j] == _RETURN):
            j += 1
        if j >= stop:
            i = stop
            break
        if data[j] == _NEWLINE:
            line += 1
            i = j + 1
            continue
        if row >= numbers.shape[0]:
            return MORE_ROWS, begin, row, line, used
        if used + numbers.shape[1] > backlog.shape[0]:
            return BACKLOG_FULL, begin, row, line, used
        for k in range(counts.shape[0]):
            if counts[k] >= limit:
                return WORDS_FULL, begin, row, line, used
        column = 0
        while True:
            first = i
            after = i
            if i < stop and data[i] == _QUOTE:
                i += 1
                first = i
                while i < stop and data[i] != _QUOTE and data[i] != _NEWLINE:
                    i += 1
                after = i
                closed = i < stop and data[i] == _QUOTE
                i += closed
                while i < stop and data[i] != separator and data[i] != _NEWLINE:
                    closed = closed and (data[i] == _SPACE or data[i] == _RETURN)
                    i += 1
                if not closed:  # a quote inside the cell: it is taken as it stands, and is no number
                    first -= 1
                    after = i
            else:
                while i < stop and data[i] != separator and data[i] != _NEWLINE:
                    i += 1
                after = i
            if after > first and data[after - 1] == _RETURN:
                after -= 1
            if column == columns:
                return TOO_MANY, begin, row, line, used
            kind = kinds[column]
            target = place[column]
            if kind == NUMBER:
                comma = False  # the parser would take what follows for the next cell
                for k in range(first, after):
                    comma = comma or data[k] == _COMMA
                if comma:
                    left = 1
                elif after > first:
                    left = _parse_rows(
                        data, first, after, numbers, row, target, line, backlog[used : used + 1]
                    )[5]
                else:
                    left = 0
                if left:
                    backlog[used, 0] = first
                    backlog[used, 1] = after
                    backlog[used, 2] = row
                    backlog[used, 3] = column
                    backlog[used, 4] = line
                    used += 1
            elif kind == TEXT:
                code = _find_word(data, first, after, words[target], slots[target], counts[target])
                codes[row, target] = code
                counts[target] = max(counts[target], code + 1)
            column += 1
            if i < stop and data[i] == separator:
                i += 1
                continue
            break
        if column < columns:
            return TOO_FEW, begin, row, line, used
        i = min(i + 1, stop)
        row += 1
        line += 1
    return FINISHED, i, row, line, used


def _put_words(data: Any, words: Any, more: Any, slots: Any, count: int) -> None:
    """The first `count` words of a column into larger, empty tables, with the numbers they had."""
    for k in range(count):
        _find_word(data, words[k, 0], words[k, 1], more, slots, k)


def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:
        # numba found no folder to keep its cache in (read-only package, no home): compile each time.
        return numba.njit(nogil=True)(function)


_find_word = _compile(_find_word)
put_words = _compile(_put_words)
scan = _compile(_scan)
