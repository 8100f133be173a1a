# SPDX-License-Identifier: Apache-2.0
"""What a target may say, and when figures have reached it."""

from __future__ import annotations

import pytest

from joulelab.errors import InputError
from joulelab.knobs.target import Target, TargetKnob, parse


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", None),
        ("  ", None),
        ("val_accuracy >= 0.9", Target("val_accuracy", True, 0.9)),
        ("val_loss<=1e-3", Target("val_loss", False, 1e-3)),
    ],
)
def test_reads(text: str, wanted: Target | None) -> None:
    assert parse(text) == wanted
    assert TargetKnob().check(text) == text


@pytest.mark.parametrize("value", ["0.9", "val_accuracy > 0.9", "val_accuracy >= much", "a >= 1 >= 2", 0.9])
def test_refuses_with_the_legal_form(value: object) -> None:
    with pytest.raises(InputError, match=r"study.toml:3: .*(\n.*)*legal: ") as caught:
        TargetKnob().check(value, where="study.toml:3")
    assert "target" in caught.value.message


def test_is_reached_from_its_own_side() -> None:
    assert Target("a", True, 0.5).reached({"a": 0.5})
    assert not Target("a", True, 0.5).reached({"a": 0.4})
    assert Target("a", False, 0.5).reached({"a": 0.4})
    assert not Target("a", False, 0.5).reached({"a": 0.6})
    with pytest.raises(InputError, match="unknown figure in the target 'b'"):
        Target("b", True, 0.5).reached({"a": 1.0})
