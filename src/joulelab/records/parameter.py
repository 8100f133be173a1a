# SPDX-License-Identifier: Apache-2.0
"""One value that a trial may be given, with its type, unit and legal range, checked before anything runs."""

from __future__ import annotations

import sys

import msgspec

from joulelab.errors import InputError

Scalar = bool | int | float | str
_BITS = 63
KINDS = ("int", "float", "str", "bool")


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A declaration without weight: a plan is checked against it without loading any framework."""

    name: str
    kind: str
    help: str
    default: Scalar | None = None
    unit: str = ""
    choices: tuple[Scalar, ...] = ()
    minimum: float | None = None
    maximum: float | None = None

    def __post_init__(self) -> None:
        assert self.kind in KINDS, self.kind

    def legal(self) -> str:
        """The legal values in words, for help texts and errors."""
        if self.choices:
            return ", ".join(str(c) for c in self.choices)
        words = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false"}[
            self.kind
        ]
        if self.minimum is not None and self.maximum is not None:
            words += f" from {self.minimum:g} to {self.maximum:g}"
        elif self.minimum is not None:
            words += f" of at least {self.minimum:g}"
        elif self.maximum is not None:
            words += f" of at most {self.maximum:g}"
        return words + (f" ({self.unit})" if self.unit else "")

    def check(self, value: object, *, where: str = "") -> Scalar:
        """`value` in the declared type, or an InputError that names the legal values."""
        checked = self._cast(value)
        inside = (
            checked is not None
            and (not self.choices or checked in self.choices)
            and (self.minimum is None or isinstance(checked, str) or checked >= self.minimum)
            and (self.maximum is None or isinstance(checked, str) or checked <= self.maximum)
        )
        if not inside or checked is None:
            place = f"{where}: " if where else ""
            legal = self.legal() + (f", below 2^{_BITS}" if _is_too_long(value) else "")
            raise InputError(f"{place}{self.name} = {value!r} is not legal", cure=f"legal: {legal}")
        return checked

    def _cast(self, value: object) -> Scalar | None:
        if self.kind == "bool":
            return value if isinstance(value, bool) else None
        if isinstance(value, bool):
            return None
        if self.kind == "int":
            return value if isinstance(value, int) and not _is_too_long(value) else None
        if self.kind == "float":
            # NaN compares false with every limit, so it is refused here, where the reason is known; and no
            # spec can hold infinity.
            finite = isinstance(value, int | float) and abs(value) <= sys.float_info.max
            return float(value) if finite and isinstance(value, int | float) else None
        return value if isinstance(value, str) and _is_unicode(value) else None


def _is_too_long(value: object) -> bool:
    """Whether it is a whole number that no spec can hold."""
    return isinstance(value, int) and value.bit_length() > _BITS


def _is_unicode(text: str) -> bool:
    """Arguments of a command line may hold bytes that are no UTF-8; a spec cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
