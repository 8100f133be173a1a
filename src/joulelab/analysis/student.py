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
