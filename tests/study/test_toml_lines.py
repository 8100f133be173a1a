# SPDX-License-Identifier: Apache-2.0
"""Lines of keys, however the file is written; a place that is not there falls back to what encloses it."""

from __future__ import annotations

from joulelab.study.toml_lines import TomlLines, line_in

TEXT = """\
name = "x"  # name = "y"
grid.a = [
  1,
  2,
]

[ knobs ] # [other]
"package.module:Class" = 3
b = 1
[deep."odd.table"]
key = 1
[[twice]]
"""


def test_lines() -> None:
    lines = TomlLines(TEXT)
    assert lines.of("name") == 1
    assert (lines.of("grid"), lines.of("grid", "a")) == (2, 2)
    assert (lines.of("knobs"), lines.of("knobs", "package.module:Class"), lines.of("knobs", "b")) == (7, 8, 9)
    assert lines.of("deep", "odd.table", "key") == 11
    assert lines.of("twice") == 12
    assert (lines.of("knobs", "missing"), lines.of("missing")) == (7, 1)


def test_line_of_a_syntax_error() -> None:
    assert line_in("Invalid value (at line 3, column 5)", TEXT) == 3
    assert line_in("Unexpected end (at end of document)", TEXT) == 12
