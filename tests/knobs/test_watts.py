# SPDX-License-Identifier: Apache-2.0
"""Caps as people write them."""

from __future__ import annotations

import pytest

from joulelab.hardware.device import Limits
from joulelab.knobs.watts import normal, power_w, refusal

CARD = Limits(now_w=500.0, default_w=700.0, min_w=200.0, max_w=700.0)
UNTOLD = Limits(now_w=100.0, default_w=0.0, min_w=0.0, max_w=0.0)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (400, "400"),
        (400.0, "400"),
        (412.5, "412.5"),
        ("400", "400"),
        ("400W", "400"),
        (" 400 W ", "400"),
        ("60%", "60%"),
        ("60.0 %", "60%"),
        ("100%", "100%"),
        ("as-is", "as-is"),
    ],
)
def test_one_spelling_for_each(given: object, wanted: str) -> None:
    assert normal(given) == wanted


@pytest.mark.parametrize(
    "given",
    [
        True,
        0,
        -5,
        0.0,
        "0",
        "0%",
        "101%",
        "-400",
        "400 J",
        "",
        "max",
        float("nan"),
        float("inf"),
        None,
        [400],
    ],
)
def test_what_is_no_cap(given: object) -> None:
    assert normal(given) == ""


def test_a_share_is_of_the_default_not_of_what_was_found() -> None:
    assert power_w("60%", CARD) == pytest.approx(420.0)
    assert power_w("450", CARD) == 450.0
    assert power_w("60%", UNTOLD) is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("199", "199 W is out of the range of card: legal 200 to 700 W, default 700 W"),
        ("701", "701 W is out of the range"),
        ("20%", "20%, 140 W, is out of the range"),
        ("200", ""),
        ("700", ""),
        ("100%", ""),
    ],
)
def test_the_range_of_the_device(value: str, words: str) -> None:
    said = refusal(value, CARD, name="card")
    assert said.startswith(words)
    assert bool(said) == bool(words)


def test_a_device_that_does_not_tell() -> None:
    assert "tells no default power" in refusal("60%", UNTOLD, name="card")
    assert refusal("5000", UNTOLD, name="card") == ""
