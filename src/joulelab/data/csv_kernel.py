# SPDX-License-Identifier: Apache-2.0
"""The compiled part of the CSV reader: bytes in, float32 out, no text handling beyond plain numbers.

Importing this loads numba, so `wide_csv` imports it when the first file is read.

Exactness: a value is the float64 nearest to the text, cast to float32. Two ways get there without
arbitrary precision. A mantissa under 2**53 and a power of ten up to 22 are both exact in float64, so one
operation rounds once. Otherwise the product is off by less than 4 * 2**-53 of itself; rounding to float32 is
monotone, so where both ends of that interval round to the same float32, so does the value between them.
What neither way settles is left to Python, cell by cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]

# How a call of `parse_rows` ended.
FINISHED = 0
BACKLOG_FULL = 1  # call again from the position returned, once the left-over cells are dealt with
TOO_FEW = 2
TOO_MANY = 3
MORE_ROWS = 4  # than `out` has: nothing was written beyond it

_EXACT = 22
_REACH = 60  # m < 2**64 times 10**60 stays far inside the normal range of float64, and so does the quotient
_POWERS = np.array([float(f"1e{k}") for k in range(-_REACH, _REACH + 1)])
_MANTISSA_EXACT = np.uint64(2**53)
_SPREAD = 2.0**-50

_COMMA, _NEWLINE, _RETURN, _SPACE, _TAB = 44, 10, 13, 32, 9
_MINUS, _PLUS, _DOT, _ZERO, _UPPER_E, _LOWER_E = 45, 43, 46, 48, 69, 101


def _count_newlines(data: Bytes, start: int, stop: int) -> int:
    count = 0
    for i in range(start, stop):
        count += data[i] == _NEWLINE
    return count


def _parse_rows(  # noqa: PLR0912, PLR0915, PLR0917  one compiled loop: a call a cell would cost more than the cell
    data: Bytes,
    start: int,
    stop: int,
    out: np.ndarray[Any, np.dtype[np.float32]],
    row: int,
    column: int,
    line: int,
    backlog: np.ndarray[Any, np.dtype[np.int64]],
) -> tuple[int, int, int, int, int, int]:
    """Parse cells from `start`, which is cell `column` of `row`, until `stop` or until the backlog is full.

    Cells that are not plain numbers go to the backlog as (first byte, byte after, row, column, line).
    Returns (how it ended, position, row, column, line, backlog used).
    Blank lines count as lines, not as rows.
    """
    columns = out.shape[1]
    room = backlog.shape[0]
    used = 0
    i = start
    while i < stop:
        if column == 0:
            # A line of nothing but blanks is no row.
            j = i
            while j < stop and (data[j] == _SPACE or data[j] == _TAB or data[j] == _RETURN):
                j += 1
            if j >= stop:
                i = stop
                break
            if data[j] == _NEWLINE:
                line += 1
                i = j + 1
                continue
            if row >= out.shape[0]:
                return MORE_ROWS, i, row, column, line, used
        if column == columns:
            return TOO_MANY, i, row, column, line, used
        first = i
        while i < stop and (data[i] == _SPACE or data[i] == _TAB):
            i += 1
        negative = False
        if i < stop and (data[i] == _MINUS or data[i] == _PLUS):
            negative = data[i] == _MINUS
            i += 1
        mantissa = np.uint64(0)
        digits = 0  # digits seen
        kept = 0  # digits in the mantissa, leading zeros not counted
        power = 0
        cut = False  # digits were dropped that were not zero
        while i < stop:
            digit = data[i] - _ZERO
            if digit < 0 or digit > 9:
                break
            digits += 1
            if kept < 19:
                mantissa = mantissa * np.uint64(10) + np.uint64(digit)
                kept += mantissa != 0
            else:
                power += 1
                cut = cut or digit != 0
            i += 1
        if i < stop and data[i] == _DOT:
            i += 1
            while i < stop:
                digit = data[i] - _ZERO
                if digit < 0 or digit > 9:
                    break
                digits += 1
                if kept < 19:
                    mantissa = mantissa * np.uint64(10) + np.uint64(digit)
                    kept += mantissa != 0
                    power -= 1
                else:
                    cut = cut or digit != 0
                i += 1
        plain = digits > 0
        if plain and i < stop and (data[i] == _LOWER_E or data[i] == _UPPER_E):
            i += 1
            down = False
            if i < stop and (data[i] == _MINUS or data[i] == _PLUS):
                down = data[i] == _MINUS
                i += 1
            exponent = 0
            exponent_digits = 0
            while i < stop:
                digit = data[i] - _ZERO
                if digit < 0 or digit > 9:
                    break
                exponent = min(exponent * 10 + digit, 100_000)
                exponent_digits += 1
                i += 1
            plain = exponent_digits > 0
            power += -exponent if down else exponent
        while i < stop and (data[i] == _SPACE or data[i] == _TAB):
            i += 1
        if i < stop and data[i] == _RETURN and (i + 1 == stop or data[i + 1] == _NEWLINE):
            i += 1
        ended = i >= stop or data[i] == _COMMA or data[i] == _NEWLINE
        settled = False
        if plain and ended:
            value = 0.0
            if mantissa == 0:
                settled = True
            elif not cut and mantissa < _MANTISSA_EXACT and -_EXACT <= power <= _EXACT:
                # Widened first: numba would take the sum of signed and unsigned as a float too, but say so.
                exact = np.float64(np.int64(mantissa))
                value = exact / _POWERS[_REACH - power] if power < 0 else exact * _POWERS[_REACH + power]
                settled = True
            elif -_REACH <= power <= _REACH:
                value = np.float64(mantissa) * _POWERS[_REACH + power]
                low = np.float32(value * (1.0 - _SPREAD))
                high = np.float32(value * (1.0 + _SPREAD))
                settled = low == high
            out[row, column] = np.float32(-value if negative else value)
        if not settled:
            while i < stop and data[i] != _COMMA and data[i] != _NEWLINE:
                i += 1
            backlog[used, 0] = first
            backlog[used, 1] = i
            backlog[used, 2] = row
            backlog[used, 3] = column
            backlog[used, 4] = line
            used += 1
        column += 1
        if i < stop and data[i] == _COMMA:
            i += 1
            if i >= stop:  # the last line ends in a comma and no newline: one more, blank cell
                if column == columns:
                    return TOO_MANY, i, row, column, line, used
                out[row, column] = np.float32(np.nan)
                column += 1
                i = stop
        elif i < stop:  # a newline
            if column < columns:
                return TOO_FEW, i, row, column, line, used
            i += 1
            row += 1
            line += 1
            column = 0
        if used == room and i < stop:
            return BACKLOG_FULL, i, row, column, line, used
    if 0 < column < columns:
        return TOO_FEW, i, row, column, line, used
    return FINISHED, i, row + (column > 0), 0, line, used


def _compile(function: Callable[..., Any], signature: Any) -> Callable[..., Any]:
    compiled: Callable[..., Any]
    try:
        compiled = numba.njit(signature, nogil=True, cache=True)(function)
    except RuntimeError:
        # numba found no folder to keep its cache in (read-only package, no home): compile each time.
        compiled = numba.njit(signature, nogil=True)(function)
    return compiled


_bytes = numba.types.Array(numba.uint8, 1, "C", readonly=True)
_i64 = numba.int64
count_newlines = _compile(_count_newlines, _i64(_bytes, _i64, _i64))
parse_rows = _compile(
    _parse_rows,
    numba.types.Tuple([_i64] * 6)(  # type: ignore[no-untyped-call]
        _bytes, _i64, _i64, numba.float32[:, ::1], _i64, _i64, _i64, numba.int64[:, ::1]
    ),
)
