# SPDX-License-Identifier: Apache-2.0
"""The five exceptions of JouleLab. Each says what was found, what would be legal, and the cure."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class JouleLabError(Exception):
    """Base of all: catch this to catch everything that JouleLab raises on purpose."""

    def __init__(self, message: str, *, cure: str = "") -> None:
        super().__init__(message if not cure else f"{message}\n  cure: {cure}")
        self.message = message
        self.cure = cure


class InputError(JouleLabError):
    """A value that a person gave (flag, study file, argument) is not legal."""


class SensorError(JouleLabError):
    """A sensor or a cap is missing, denied, or stopped answering."""


class RecordError(JouleLabError):
    """A trial folder cannot be read or written as it should."""


class TrialError(JouleLabError):
    """A trial could not be started, or ended in a way that makes its figures worthless."""


def unknown(what: str, value: object, legal: Iterable[str], *, where: str = "") -> InputError:
    """The error for a misspelt name: it lists the legal ones and guesses which one was meant."""
    names = sorted(legal)
    near = difflib.get_close_matches(str(value), names, n=1)
    cure = f"did you mean '{near[0]}'? " if near else ""
    place = f"{where}: " if where else ""
    return InputError(f"{place}unknown {what} '{value}'", cure=f"{cure}legal: {', '.join(names) or 'none'}")
