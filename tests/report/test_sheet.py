# SPDX-License-Identifier: Apache-2.0
"""What is printed on a sheet comes back as it was, but for blanks at the ends."""

from __future__ import annotations

from rich.table import Table

from joulelab.report.sheet import Sheet


def test_brackets_and_names_of_pictures_are_text() -> None:
    sheet = Sheet(width=40)
    sheet.console.print("[bold]x[/] :smile: [/tmp]")
    assert sheet.text() == "[bold]x[/] :smile: [/tmp]"


def test_cells_of_tables_are_text_too_and_lines_end_where_their_words_do() -> None:
    sheet = Sheet(width=40)
    table = Table("a", "b", box=None)
    table.add_row("[red]", "1")
    sheet.console.print(table)
    sheet.console.print()
    assert "[red]" in sheet.text()
    assert all(line == line.rstrip() for line in sheet.text().splitlines())
    assert "\x1b" not in sheet.text()


def test_what_would_change_the_terminal_is_written_out() -> None:
    sheet = Sheet(width=60)
    sheet.console.print("a\x1b[31mred\x9b2J")
    assert sheet.text() == r"a\x1b[31mred\x9b2J"
