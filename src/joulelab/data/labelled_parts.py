# SPDX-License-Identifier: Apache-2.0
"""What the two ways to read a labelled file share: single cells, words of several blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.data.labelled import Codes, Words
from joulelab.data.wide_csv import cell as numeric_cell
from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Beyond what `wide_csv` takes for a missing value; the CANDLE drug tables use these.
_ALSO_MISSING = frozenset((b"na", b"-"))


@dataclass(frozen=True, kw_only=True)
class Filled:
    """What a block turned out to hold: rows, and for each column of text the words that its codes mean."""

    rows: int
    words: tuple[tuple[str, ...], ...]


def cell(path: Path, text: bytes, *, line: int, column: int) -> np.float32:
    """One number by Python's own conversion. `line` counts from 0 behind the header, `column` from 0."""
    if text.strip() in _ALSO_MISSING:
        return np.float32(np.nan)
    return numeric_cell(path, text, line=line + 1, column=column)


def ragged(path: Path, *, line: int, cells: int, columns: int) -> InputError:
    return InputError(
        f"{path}: row {line + 2}: it has {cells} cells where the header has {columns}",
        cure="give every row as many cells as the header",
    )


def word(text: bytes | bytearray) -> str:
    return text.decode("utf-8", "replace")


def join_words(of_parts: Sequence[Sequence[str]], codes: Any, *, rows: Sequence[int]) -> Words:
    """Columns of words, each block with numbers of its own, as one column."""
    numbers: dict[str, int] = {}
    joined: Codes = np.empty(len(codes), np.int32)
    start = 0
    for words, count in zip(of_parts, rows, strict=True):
        here = np.array([numbers.setdefault(w, len(numbers)) for w in words] or [0], np.int32)
        joined[start : start + count] = here[codes[start : start + count]]
        start += count
    return Words(codes=joined, words=tuple(numbers))
