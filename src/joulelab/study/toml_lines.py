# SPDX-License-Identifier: Apache-2.0
"""On which line of a TOML text a key stands: the parser keeps no places, and an error must name one."""

from __future__ import annotations

import re

_PART = r"""(?:"[^"\n]*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_TABLE = re.compile(rf"\s*\[\[?\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")
_LINE = re.compile(r"line (\d+)")


class TomlLines:
    """Finds the line of a key by its table and name; of the table where the key is written inline."""

    def __init__(self, text: str) -> None:
        self._line: dict[tuple[str, ...], int] = {}
        table: tuple[str, ...] = ()
        for number, line in enumerate(text.splitlines(), start=1):
            if head := _TABLE.match(line):
                table = _parts(head[1])
                self._line.setdefault(table, number)
            elif key := _KEY.match(line):
                names = (*table, *_parts(key[1]))
                # `grid.batch_size = [...]` also says where the table `grid` begins.
                for length in range(len(table) + 1, len(names) + 1):
                    self._line.setdefault(names[:length], number)

    def of(self, *names: str) -> int:
        """The line of the key `names[-1]` in the table of the names before it; of what encloses it; or 1."""
        for length in range(len(names), 0, -1):
            if names[:length] in self._line:
                return self._line[names[:length]]
        return 1


def line_in(message: str, text: str) -> int:
    """The line that a syntax error of the parser names; the last one where it says 'end of document'."""
    found = _LINE.search(message)
    return int(found[1]) if found else max(1, len(text.splitlines()))


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))
