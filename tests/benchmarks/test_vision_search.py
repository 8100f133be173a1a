# SPDX-License-Identifier: Apache-2.0
"""The search asks for the cheapest training that may reach the target, and ends when the answer is known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.vision_search import Run, Search, Variant, best, reached, runs_of

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN = Variant("plain", {}, 0.01)
MIXED = Variant("mixed", {"mix": "cutmix"}, 0.02)
LENGTHS = (32, 64, 128, 256)


def search(*runs: tuple[str, int, int, float], target: float = 0.9) -> Search:
    """After runs of variant, epochs, seed, accuracy; an epoch of the mixed one costs 2 J, of the other 1."""
    made = Search((PLAIN, MIXED), LENGTHS, 64, target)
    made.runs = [
        Run(variant, epochs, seed, accuracy, 2.0 if variant == "mixed" else 1.0)
        for variant, epochs, seed, accuracy in runs
    ]
    return made


def asked(
    made: Search, affordable: Callable[[Variant, int], bool] = lambda *_: True
) -> tuple[str, int, int] | None:
    found = made.next_run(affordable)
    return None if found is None else (found[0].name, found[1], found[2])


def test_each_variant_is_tried_once_at_first() -> None:
    assert asked(search()) == ("plain", 64, 0)
    assert asked(search(("plain", 64, 0, 0.95))) == ("mixed", 64, 0)
    assert asked(search(), lambda variant, _: variant is MIXED) == ("mixed", 64, 0)


def test_an_accuracy_is_expected_along_straight_lines() -> None:
    made = search(("mixed", 64, 0, 0.88), ("mixed", 64, 1, 0.89))
    assert made.expected(PLAIN, 64) is None
    assert made.expected(MIXED, 64) == pytest.approx(0.885)
    assert made.expected(MIXED, 128) == pytest.approx(0.905), "twice the epochs, as was thought before"
    assert made.expected(MIXED, 32) == pytest.approx(0.865)
    made = search(("mixed", 32, 0, 0.86), ("mixed", 128, 0, 0.88))
    assert made.expected(MIXED, 64) == pytest.approx(0.87)
    assert made.expected(MIXED, 256) == pytest.approx(0.89), "as between the last two, 0.01"
    made = search(("mixed", 64, 0, 0.80), ("mixed", 128, 0, 0.88))
    assert made.expected(MIXED, 256) == pytest.approx(0.90), "gains become less, never more than was thought"
    assert made.expected(MIXED, 32) == pytest.approx(0.72), "and losses more"
    made = search(("mixed", 64, 0, 0.88), ("mixed", 128, 0, 0.87))
    assert made.expected(MIXED, 256) == pytest.approx(0.87), "it does not fall for ever"


def test_the_cheapest_that_may_reach_it_is_next() -> None:
    # Both may at 128, the plain one costs half; at 64 neither.
    assert asked(search(("plain", 64, 0, 0.893), ("mixed", 64, 0, 0.885))) == ("plain", 128, 0)
    # The plain one would need 256 epochs at 1 J, the mixed one 64 at 2 J.
    assert asked(search(("plain", 64, 0, 0.88), ("mixed", 64, 0, 0.899))) == ("mixed", 64, 1)
    # A shorter one, since there is room.
    assert asked(search(("plain", 64, 0, 0.91), ("mixed", 64, 0, 0.8))) == ("plain", 32, 0)


def test_an_arm_is_run_until_its_seeds_say_yes_or_no() -> None:
    bad = ("mixed", 64, 0, 0.8)
    low = ("plain", 32, 0, 0.88)
    runs: list[tuple[str, int, int, float]] = [bad, low, ("plain", 64, 0, 0.901)]
    for seed in (1, 2, 3):
        assert asked(search(*runs)) == ("plain", 64, seed)
        runs.append(("plain", 64, seed, 0.902))
    made = search(*runs)
    assert made.winner() == ("plain", 64)
    assert asked(made) is None, "four have reached it, and nothing cheaper may"
    # Two misses of five are too many; one is not.
    one = [bad, low, ("plain", 64, 0, 0.9), ("plain", 64, 1, 0.899)]
    assert asked(search(*one)) == ("plain", 64, 2)
    assert search(*one).winner() is None
    two = [*one, ("plain", 64, 2, 0.899)]
    assert search(*two).settled("plain", 64)
    assert asked(search(*two)) == ("plain", 128, 0)


def test_what_is_dearer_than_the_winner_is_left_out() -> None:
    won = [("plain", 128, seed, 0.901) for seed in range(4)]
    runs = [*won, ("plain", 64, 0, 0.88), ("mixed", 64, 0, 0.8995)]
    assert asked(search(*runs)) is None, "the mixed one costs as much at 64 epochs"
    assert asked(search(*runs, ("mixed", 32, 0, 0.8985))) == ("mixed", 32, 1)


def test_where_nothing_may_reach_it_the_nearest_is_tried_and_then_no_more() -> None:
    runs = [("plain", 64, 0, 0.80), ("mixed", 64, 0, 0.79)]
    assert asked(search(*runs)) == ("mixed", 256, 0), "0.83 against 0.82"
    assert asked(search(*runs), lambda _, epochs: epochs < 200) == ("plain", 128, 0), (
        "0.81, and cheaper first"
    )
    assert asked(search(*runs), lambda *_: False) is None
    every = [(v, n, 0, 0.8) for v in ("plain", "mixed") for n in LENGTHS]
    assert asked(search(*every)) is None


def test_a_whole_search_ends_at_the_cheapest() -> None:
    def truth(variant: str, epochs: int, seed: int) -> float:
        ends = {"plain": 0.84 + 0.008 * math.log2(epochs), "mixed": 0.77 + 0.02 * math.log2(epochs)}
        return ends[variant] + 0.001 * (seed % 3 - 1)

    made = search()
    while (found := made.next_run(lambda *_: True)) is not None:
        variant, epochs, seed = found
        cost = 2.0 if variant is MIXED else 1.0
        made.runs.append(Run(variant.name, epochs, seed, truth(variant.name, epochs, seed), cost))
        assert len(made.runs) < 20
    # 0.84 + 0.008 * 8 = 0.904 for 256 J; mixed has 0.91 at 128 for 256 J, and 0.89 at 64.
    assert made.winner() in {("plain", 256), ("mixed", 128)}
    assert len({(run.variant, run.epochs, run.seed) for run in made.runs}) == len(made.runs), "none twice"


ROW: dict[str, Any] = {
    "variant": "plain",
    "epochs_asked": 5,
    "seed": 3,
    "valid": True,
    "epochs": 4,
    "samples": 400,
    "energy_j": 100.0,
    "time_s": 10.0,
    "curve": [None, 0.5, 0.7, 0.6],
    "epoch_j": [24.0, 23.0, 22.0, 21.0],
    "epoch_s": [2.0, 2.0, 2.5, 2.5],
}


def test_what_a_training_had_cost_at_the_first_epoch_that_reached_it() -> None:
    # 10 J of loading; the epochs after the one that reached it are taken off.
    assert reached(ROW, 0.5) == {"epochs": 2, "energy_j": 57.0, "time_s": 5.0, "samples": 200}
    assert reached(ROW, 0.6) == {"epochs": 3, "energy_j": 79.0, "time_s": 7.5, "samples": 300}
    assert reached(ROW, 0.71) is None
    assert reached({**ROW, "valid": False}, 0.5) is None
    assert best(ROW) == 0.7
    assert best({**ROW, "valid": False}) == 0.0
    assert best({**ROW, "curve": [None]}) == 0.0
    for unknown in ({"energy_j": None}, {"epoch_j": [1.0, 1.0, 1.0, None]}):
        found = reached({**ROW, **unknown}, 0.6)
        assert found is not None
        assert (found["epochs"], found["energy_j"]) == (3, None)


def test_rows_become_runs() -> None:
    assert runs_of([ROW]) == [Run("plain", 5, 3, 0.7, 25.0)]
    assert runs_of([{**ROW, "energy_j": None}])[0].epoch_j == 2.5
