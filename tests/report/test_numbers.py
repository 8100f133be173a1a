# SPDX-License-Identifier: Apache-2.0
"""Figures for people, at the edges."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.report.numbers import duration, quantity, relative, settings, share


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (1240.0, 62.0, "1.240 ± 0.062 kJ"),
        (1240.0, 620.0, "1.24 ± 0.62 kJ"),
        (1240.0, None, "1.24 kJ"),
        (93.04, 46.5, "93 ± 46 J"),
        (97.714, 0.391, "97.71 ± 0.39 J"),
        (0.0103, 0.0006, "10.30 ± 0.60 mJ"),
        (2.5e6, 1.2e5, "2.50 ± 0.12 MJ"),
        (999.96, 0.1, "999.96 ± 0.10 J"),
        (999.96, None, "1.00 kJ"),
        (999.96, 1.5, "1.0000 ± 0.0015 kJ"),
        (999_999.0, None, "1.00 MJ"),
        (999.4, None, "999 J"),
        (0.0, None, "0 J"),
        (0.0, 12.0, "0 ± 12 J"),
        (0.3, 12.0, "0 ± 12 J"),
        (5.0, 120.0, "0 ± 120 J"),
        (5.0, 0.0, "5.00 ± 0.00 J"),
        (5.0, 0.0996, "5.00 ± 0.10 J"),
        (-5.0, 0.5, "-5.00 ± 0.50 J"),
        (5.0, math.inf, "5.00 ± ? J"),
        (5.0, math.nan, "5.00 ± ? J"),
        (4e-8, None, "40.0 nJ"),
        (3.2e16, None, "32.0 PJ"),
    ],
)
def test_quantity(value: float, error: float | None, words: str) -> None:
    assert quantity(value, "J", error=error) == words


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_unknown_is_never_zero(value: float | None) -> None:
    assert quantity(value, "J") == "-"
    assert quantity(value, "J", error=1.0, reason="no sensor") == "- (no sensor)"


@given(
    st.floats(min_value=1e-6, max_value=1e15, allow_subnormal=False),
    st.floats(min_value=1e-3, max_value=2.0),
)
def test_what_is_shown_is_within_a_tenth_of_the_error(value: float, ratio: float) -> None:
    error = value * ratio
    text = quantity(value, "J", error=error)
    number, _, rest = text.partition(" ± ")
    shown_error, _, unit = rest.partition(" ")
    factor = {"n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}[
        unit[:-1]
    ]
    assert float(number) * factor == pytest.approx(value, abs=0.051 * error)
    assert float(shown_error) * factor == pytest.approx(error, rel=0.051)


@pytest.mark.parametrize(
    ("error", "value", "words"),
    [
        (5.0, 100.0, "±5.0 %"),
        (50.0, 100.0, "±50 %"),
        (9.46, 100.0, "±9.5 %"),
        (300.0, 100.0, "±300 %"),
        (0.01, 100.0, "±<0.1 %"),
        (0.0, 100.0, "±0.0 %"),
        (1.0, -100.0, "±1.0 %"),
        (None, 100.0, "-"),
        (1.0, None, "-"),
        (1.0, 0.0, "-"),
        (math.inf, 1.0, "-"),
    ],
)
def test_relative(error: float | None, value: float | None, words: str) -> None:
    assert relative(error, value) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.00032, "320 µs"),
        (0.32, "320 ms"),
        (12.44, "12.4 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (185.2, "3 min 05 s"),
        (3599.6, "1 h 00 min"),
        (7620.0, "2 h 07 min"),
        (0.0, "0 s"),
        (None, "-"),
        (math.inf, "-"),
    ],
)
def test_duration(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


def test_share_and_settings() -> None:
    assert (share(0.123), share(None), share(math.nan)) == ("12", "-", "-")
    assert settings({"batch_size": 20, "scale": 0.038, "loader": "ours", "x": None}) == (
        "batch_size=20 scale=0.038 loader=ours x=-"
    )
