# SPDX-License-Identifier: Apache-2.0
"""A sheet that tables and lines are printed on, as one text in the end."""

from __future__ import annotations

import io

from rich.console import Console

from joulelab.report.numbers import visible


class Sheet:
    """Plain text, as wide as the terminal if no `width` is given."""

    def __init__(self, *, width: int = 0) -> None:
        self._out = io.StringIO()
        # Settings are people's own texts: brackets in them are no markup.
        self.console = Console(
            file=self._out,
            width=width or Console().width,
            no_color=True,
            highlight=False,
            emoji=False,
            markup=False,
        )

    def text(self) -> str:
        """What was printed, without blanks at the ends of lines, and without what is not to be seen."""
        return "\n".join(visible(line.rstrip()) for line in self._out.getvalue().rstrip().splitlines())
