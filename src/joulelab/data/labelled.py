# SPDX-License-Identifier: Apache-2.0
"""A table that has names over its columns, and text in some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Floats = np.ndarray[tuple[int, int], np.dtype[np.float32]]
Codes = np.ndarray[tuple[int], np.dtype[np.int32]]


@dataclass(frozen=True, kw_only=True)
class Words:
    """A column of text: row i holds `words[codes[i]]`; words stand in the order of their first row."""

    codes: Codes
    words: tuple[str, ...]

    def at(self, row: int) -> str:
        return self.words[int(self.codes[row])]

    def sorted(self) -> Words:
        """The same column with its words in alphabetical order."""
        order = sorted(range(len(self.words)), key=self.words.__getitem__)
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        return Words(codes=rank[self.codes], words=tuple(self.words[k] for k in order))


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """The numbers of a file, the names of their columns, and its columns of text."""

    names: tuple[str, ...]
    values: Floats
    texts: Mapping[str, Words]

    def column(self, name: str) -> Any:
        return self.values[:, self.names.index(name)]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What is wanted of a file, found in its header. Positions count from 0."""

    header: tuple[str, ...]
    text: tuple[int, ...]
    numbers: tuple[int, ...]

    @property
    def text_first(self) -> bool:
        """Whether the text stands in the first columns and everything after it is wanted as numbers."""
        count = len(self.text)
        return self.text == tuple(range(count)) and self.numbers == tuple(range(count, len(self.header)))

    def names(self, positions: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.header[k] for k in positions)


def columns(
    path: Path, line: bytes, *, text: Sequence[str], numbers: Sequence[str] | None, separator: str
) -> Columns:
    """The columns of the header `line`; `numbers` None means all that are not text."""
    header = tuple(cell.strip().strip('"') for cell in line.decode("utf-8", "replace").split(separator))
    position = {
        name: k for k, name in reversed(list(enumerate(header)))
    }  # of a name that is there twice, the first
    missing = [name for name in (*text, *(numbers or ())) if name not in position]
    if missing:
        shown = ", ".join(header[:6]) + (f", ... ({len(header)} in all)" if len(header) > 6 else "")
        raise InputError(
            f"{path}: its first line has no column {' and no column '.join(missing)}; it has: {shown}",
            cure="give the file of the original layout, with its header",
        )
    chosen = tuple(position[name] for name in text)
    if numbers is None:
        rest = tuple(k for k in range(len(header)) if k not in chosen)
    else:
        rest = tuple(position[name] for name in numbers)
    return Columns(header=header, text=chosen, numbers=rest)
