# SPDX-License-Identifier: Apache-2.0
"""Figures as people read them: a fitting unit, no more digits than the error allows, '-' for unknown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN = "-"
LONGEST = 160
_PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}


def quantity(value: float | None, unit: str, *, error: float | None = None, reason: str = "") -> str:
    """`1.240 ± 0.062 kJ`. An error has two digits and says how many the value has; without one it has three.

    Unknown is '-' with the reason, never 0. An error that is not finite says nothing of the value: `± ?`.
    """
    if value is None or not math.isfinite(value):
        return f"{UNKNOWN} ({reason})" if reason else UNKNOWN
    if error is None or not math.isfinite(error) or error < 0:
        doubt = " ± ?" if error is not None else ""
        decimals = _decimals(value, digits=3)
        power = _power(round(value, decimals))
        return f"{_scaled(value, power=power, decimals=decimals)}{doubt} {_PREFIXES[power]}{unit}".rstrip()
    decimals = _decimals(error, digits=2) if error > 0 else _decimals(value, digits=3)
    power = _power(max(abs(round(value, decimals)), error / 10))
    shown = _scaled(value, power=power, decimals=decimals)
    return f"{shown} ± {_scaled(error, power=power, decimals=decimals)} {_PREFIXES[power]}{unit}".rstrip()


def relative(error: float | None, value: float | None) -> str:
    """The error as a share of the value: `±5 %`; '-' where either is unknown or the value is 0."""
    if error is None or value is None or not math.isfinite(error) or not value or not math.isfinite(value):
        return UNKNOWN
    percent = abs(error / value) * 100
    if percent >= 9.5:
        return f"±{percent:.0f} %"
    return "±<0.1 %" if 0 < percent < 0.05 else f"±{percent:.1f} %"


def duration(seconds: float | None) -> str:
    """`320 ms`, `12.4 s`, `3 min 05 s`, `2 h 07 min`."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if abs(seconds) < 59.95:
        return quantity(seconds, "s")
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def share(value: float | None) -> str:
    """A share as a whole number of per cent, without the sign: `12`."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value * 100:.0f}"


def visible(text: str) -> str:
    """`text` on one line, with what would move a terminal's cursor or change its colours written out."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def setting(value: object) -> str:
    """One value of a setting; of a text that is longer than a line, such as a script, its beginning."""
    if isinstance(value, str):
        line = visible(" ".join(value.split()))
        return line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."
    return UNKNOWN if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def settings(values: Mapping[str, object]) -> str:
    """`batch_size=20 loader=ours`."""
    return " ".join(f"{name}={setting(value)}" for name, value in values.items())


def _decimals(value: float, *, digits: int) -> int:
    """Decimals (negative: tens, hundreds) that leave `digits` digits of the value, once it is rounded."""
    if value == 0:
        return 0
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    # 0.0996 to two digits is 0.10: one decimal less than its first digit promised.
    return digits - 1 - math.floor(math.log10(abs(rounded))) if rounded else decimals


def _power(value: float) -> int:
    """The power of a thousand of the prefix that leaves one to three digits before the point."""
    if value == 0:
        return 0
    power = 3 * math.floor(math.log10(abs(value)) / 3)
    return min(max(power, min(_PREFIXES)), max(_PREFIXES))


def _scaled(value: float, *, power: int, decimals: int) -> str:
    return f"{round(value, decimals) / 10.0**power:.{max(0, decimals + power)}f}"


def percent(share: float | None, half: float | None = None, *, digits: int = 1) -> str:
    """A share of one as a percentage, with half of its interval where there is one."""
    if share is None:
        return UNKNOWN
    said = f"{100 * share:.{digits}f}"
    return f"{said} %" if half is None else f"{said} ± {100 * half:.{digits}f} %"
