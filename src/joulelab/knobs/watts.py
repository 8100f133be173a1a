# SPDX-License-Identifier: Apache-2.0
"""The value of a cap as a person writes it: 400, "400", "400 W", "60%" of the default, or "as-is"."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from joulelab.hardware.device import Limits

AS_IS = "as-is"


def normal(value: object) -> str:
    """One spelling for each cap, so that one setting is one trial; empty where it is none."""
    if isinstance(value, bool):
        return ""
    if isinstance(value, int | float):
        return _watts(float(value)) if math.isfinite(value) else ""
    if not isinstance(value, str):
        return ""
    text = value.strip()
    if text == AS_IS:
        return text
    match = re.fullmatch(r"(\d+(?:\.\d*)?)\s*(W|%)?", text)
    if not match:
        return ""
    number = float(match[1])
    if match[2] == "%":
        return f"{_plain(number)}%" if 0.0 < number <= 100.0 else ""
    return _watts(number)


def power_w(value: str, limits: Limits) -> float | None:
    """The watts of a normal value; None for a share of a default that the device does not tell."""
    if not value.endswith("%"):
        return float(value)
    return limits.default_w * float(value[:-1]) / 100.0 if limits.default_w else None


def refusal(value: str, limits: Limits, *, name: str) -> str:
    """Why a device with these limits cannot be capped so, in words; empty if it can."""
    asked_w = power_w(value, limits)
    if asked_w is None:
        return f"{name} tells no default power, so {value} of it means nothing: give watts"
    if asked_w < limits.min_w or (limits.max_w and asked_w > limits.max_w):
        legal = f"{limits.min_w:g} to {limits.max_w:g} W" if limits.max_w else f"at least {limits.min_w:g} W"
        default = f", default {limits.default_w:g} W" if limits.default_w else ""
        said = f"{value}, {asked_w:g} W," if value.endswith("%") else f"{asked_w:g} W"
        return f"{said} is out of the range of {name}: legal {legal}{default}"
    return ""


def _watts(number: float) -> str:
    return _plain(number) if number > 0.0 else ""


def _plain(number: float) -> str:
    return f"{number:.3f}".rstrip("0").rstrip(".")
