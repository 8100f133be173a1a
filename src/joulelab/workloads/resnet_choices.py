# SPDX-License-Identifier: Apache-2.0
"""What a training of ResNet does, whoever said so: its recipe, or a parameter that says otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from joulelab.errors import InputError
from joulelab.workloads.picture_augment import SMALL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from joulelab.records.parameter import Scalar


@dataclass(frozen=True, kw_only=True)
class Choices:
    decay: float
    smoothing: float
    hole: int  # pixels; 0 is none
    strong: bool
    alternating: bool
    mix: str
    mix_share: float
    mix_until: float
    peak: float
    evaluate_from: float
    mirrored: bool
    shifted: bool


OWN = -1  # what a parameter says that leaves it to the recipe


def chosen(given: Mapping[str, Scalar]) -> Choices:
    """The recipe's own where nothing is said; an InputError where the recipe has no use for what is."""
    fast, size = given["recipe"] == "fast", int(given["image_size"])
    small = size <= SMALL
    mix = str(given["mix"])
    still = ("nothing is mixed: mix = 'none'", mix == "none")
    large = (f"that is for pictures up to {SMALL} px, and image_size is {size}", not small)
    idle = {
        "peak": (OWN, "recipe = 'imagenet' has no peak: its rate falls in stairs", not fast),
        "hole": (OWN, *large),
        "mirror": ("random", *large),
        "mix_share": (0.5, *still),
        "mix_until": (1.0, *still),
    }
    for name, (neutral, why, refused) in idle.items():
        if refused and given[name] != neutral:
            raise InputError(f"{name} = {given[name]} would do nothing: {why}", cure=f"leave {name} out")

    def number(name: str, own: float) -> float:
        value = float(given[name])
        if OWN < value < 0:
            raise InputError(
                f"{name} = {value:g} is not legal", cure=f"0 or more, or {OWN}: the recipe's own"
            )
        return own if value == OWN else value

    own_decay = 1e-4
    if fast:
        own_decay = 5e-4 if small else 5e-5
    return Choices(
        decay=number("decay", own_decay),
        smoothing=number("smoothing", 0.1 if fast else 0.0),
        hole=int(number("hole", size // 4 if fast and small else 0)),
        strong=given["augment"] == "strong",
        alternating=given["mirror"] == "alternating",
        mix=mix,
        mix_share=float(given["mix_share"]),
        mix_until=float(given["mix_until"]),
        peak=number("peak", 0.2),
        # While the rates of the fast recipe are high there is nothing to see.
        evaluate_from=number("evaluate_from", 0.5 if fast else 0.0),
        mirrored=bool(given["evaluate_mirrored"]),
        shifted=bool(given["evaluate_shifted"]),
    )
