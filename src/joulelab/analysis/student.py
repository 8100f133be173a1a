# SPDX-License-Identifier: Apache-2.0
"""The 95 % interval of a mean of few values, by Student's t."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# 0.975 quantiles for 1 to 30 degrees of freedom.
_T = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip
_Z = 1.959964


def t_975(freedom: int) -> float:
    """The quantile; above the table by its expansion around the normal one (error below 0.0001 there)."""
    assert freedom >= 1
    if freedom <= len(_T):
        return _T[freedom - 1]
    return _Z + (_Z**3 + _Z) / (4 * freedom) + (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * freedom**2)


def mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def half_width(values: Sequence[float]) -> float | None:
    """Half of the interval that holds the true mean in 95 of 100 cases; None for a single value."""
    if len(values) < 2:
        return None
    return t_975(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def change(
    mine: Sequence[float], theirs: Sequence[float], *, share: bool
) -> tuple[float | None, float | None]:
    """How far one mean lies from another, and half of the 95 % interval of that, after Welch.

    As a share of the other mean (to first order), or as a difference. A single value on either side tells no
    spread, so there is no interval. Degrees of freedom are rounded down, which widens it.
    """
    if not mine or not theirs or (share and not statistics.fmean(theirs)):
        return None, None
    here, there = statistics.fmean(mine), statistics.fmean(theirs)
    by = there if share else 1.0
    found = here / there - 1.0 if share else here - there
    if len(mine) < 2 or len(theirs) < 2:
        return found, None
    # The variance of each mean, in the unit of what is found; a share is moved by its base in proportion.
    a = statistics.variance(mine) / len(mine) / by**2
    b = statistics.variance(theirs) / len(theirs) / by**2 * ((here / there) ** 2 if share else 1.0)
    if a + b == 0.0:
        return found, 0.0
    freedom = (a + b) ** 2 / (a**2 / (len(mine) - 1) + b**2 / (len(theirs) - 1))
    return found, t_975(max(1, math.floor(freedom))) * math.sqrt(a + b)
