# SPDX-License-Identifier: Apache-2.0
"""What is not said is the recipe's own; what would do nothing is refused."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from joulelab.errors import InputError
from joulelab.workloads import RECIPES
from joulelab.workloads.resnet_choices import chosen


def given(**more: Any) -> dict[str, Any]:
    own = {p.name: p.default for p in RECIPES["resnet"].parameters}
    return {**own, "image_size": 32, **more}


NEUTRAL = {
    "strong": False,
    "alternating": False,
    "mix": "none",
    "mix_share": 0.5,
    "mix_until": 1.0,
    "peak": 0.2,
    "mirrored": False,
    "shifted": False,
}


@pytest.mark.parametrize(
    ("recipe", "size", "own"),
    [
        ("imagenet", 32, {"decay": 1e-4, "smoothing": 0.0, "hole": 0, "evaluate_from": 0.0}),
        ("imagenet", 224, {"decay": 1e-4, "smoothing": 0.0, "hole": 0, "evaluate_from": 0.0}),
        ("fast", 32, {"decay": 5e-4, "smoothing": 0.1, "hole": 8, "evaluate_from": 0.5}),
        ("fast", 64, {"decay": 5e-4, "smoothing": 0.1, "hole": 16, "evaluate_from": 0.5}),
        ("fast", 65, {"decay": 5e-5, "smoothing": 0.1, "hole": 0, "evaluate_from": 0.5}),
    ],
)
def test_the_recipe_decides_what_nobody_says(recipe: str, size: int, own: dict[str, float]) -> None:
    assert asdict(chosen(given(recipe=recipe, image_size=size))) == {**NEUTRAL, **own}


def test_what_is_said_holds_nought_included() -> None:
    said = {"decay": 0.0, "smoothing": 0.0, "hole": 0, "evaluate_from": 0.0, "peak": 0.0}
    more = {"mix": "both", "mix_share": 0.0, "mix_until": 0.0, "augment": "strong", "mirror": "alternating"}
    found = asdict(
        chosen(given(recipe="fast", evaluate_mirrored=True, evaluate_shifted=True, **said, **more))
    )
    assert {name: found[name] for name in said} == said
    assert (found["mix"], found["mix_share"], found["mix_until"]) == ("both", 0.0, 0.0)
    assert found["strong"]
    assert found["alternating"]
    assert found["mirrored"]
    assert found["shifted"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"recipe": "imagenet", "peak": 0.3}, "peak = 0.3 would do nothing: recipe = 'imagenet' has no peak"),
        (
            {"recipe": "fast", "image_size": 65, "hole": 4},
            "hole = 4 would do nothing: that is for pictures up to 64 px",
        ),
        ({"mix_share": 0.3}, "mix_share = 0.3 would do nothing: nothing is mixed"),
        ({"mix_until": 0.5}, "mix_until = 0.5 would do nothing: nothing is mixed"),
        ({"image_size": 65, "mirror": "alternating"}, "is for pictures up to 64 px, and image_size is 65"),
    ],
)
def test_what_would_do_nothing_is_refused(said: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        chosen(given(**said))
    assert words in str(refused.value)
    assert "cure: leave" in str(refused.value)


def test_between_nought_and_the_recipe_s_own_nothing_is_legal() -> None:
    with pytest.raises(InputError, match=r"decay = -0.5 is not legal\n  cure: 0 or more, or -1"):
        chosen(given(decay=-0.5))
    assert chosen(given(decay=-1)).decay == 1e-4
