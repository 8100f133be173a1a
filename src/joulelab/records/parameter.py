# SPDX-License-Identifier: Apache-2.0
"""One value that a trial may be given, with its type, unit and legal range, checked before anything runs."""

from __future__ import annotations

import math

import msgspec

from joulelab.errors import InputError

Scalar = bool | int | float | str
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
            raise InputError(f"{place}{self.name} = {value!r} is not legal", cure=f"legal: {self.legal()}")
        return checked

    def _cast(self, value: object) -> Scalar | None:
        if self.kind == "bool":
            return value if isinstance(value, bool) else None
        if isinstance(value, bool):
            return None
        if self.kind == "int":
            return value if isinstance(value, int) else None
        if self.kind == "float":
            # NaN compares false with every limit, so it is refused here, where the reason is known.
            return float(value) if isinstance(value, int | float) and not math.isnan(value) else None
        return value if isinstance(value, str) else None
