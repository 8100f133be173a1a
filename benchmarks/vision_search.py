# SPDX-License-Identifier: Apache-2.0
"""Which training to run next, in search of the cheapest that reaches a target. Nothing is run here.

An arm is a variant of the recipe with a number of epochs, since the schedule aims at its last epoch: half of
a longer training is no shorter one. Every variant is tried once at one length. From then on the cheapest arm
that may reach the target, by what was seen of its variant, is run with another seed, until an arm has
reached it in enough seeds and no cheaper one may any more.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SLACK = 0.002  # below the target that an arm may be expected to end and still be tried: seeds differ by more


@dataclass(frozen=True)
class Variant:
    """`gain`: by how much twice the epochs are thought to raise the accuracy, until two lengths were seen."""

    name: str
    asked: dict[str, Any]
    gain: float


@dataclass(frozen=True)
class Run:
    """What is known of one training: the best accuracy seen, and the joules of an epoch."""

    variant: str
    epochs: int
    seed: int
    accuracy: float
    epoch_j: float


@dataclass
class Search:
    variants: Sequence[Variant]
    lengths: Sequence[int]
    start: int
    target: float
    seeds: int = 5
    need: int = 4
    runs: list[Run] = field(default_factory=list)

    def of(self, variant: str, epochs: int) -> list[Run]:
        return [run for run in self.runs if (run.variant, run.epochs) == (variant, epochs)]

    def hits(self, variant: str, epochs: int) -> int:
        return sum(run.accuracy >= self.target for run in self.of(variant, epochs))

    def reached(self, variant: str, epochs: int) -> bool:
        return self.hits(variant, epochs) >= self.need

    def settled(self, variant: str, epochs: int) -> bool:
        """Whether more seeds could not change what is said of it."""
        misses = len(self.of(variant, epochs)) - self.hits(variant, epochs)
        return self.reached(variant, epochs) or misses > self.seeds - self.need

    def expected(self, variant: Variant, epochs: int) -> float | None:
        """The accuracy of an arm: in straight lines over the logarithm of epochs through what was seen."""
        seen: dict[int, list[float]] = {}
        for run in self.runs:
            if run.variant == variant.name:
                seen.setdefault(run.epochs, []).append(run.accuracy)
        if not seen:
            return None
        known = sorted((math.log2(length), statistics.fmean(each)) for length, each in seen.items())
        at = math.log2(epochs)
        below = [point for point in known if point[0] <= at]
        above = [point for point in known if point[0] > at]
        if below and above:
            (x0, y0), (x1, y1) = below[-1], above[0]
            return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
        # Beyond what was seen: by the last two lengths on that side, and not more than was thought before.
        gain = variant.gain
        ends = known[-2:] if below else known[:2]
        if len(ends) == 2:
            slope = (ends[1][1] - ends[0][1]) / (ends[1][0] - ends[0][0])
            gain = max(0.0, min(gain, slope)) if below else max(gain, slope)
        x, y = known[-1] if below else known[0]
        return y + gain * (at - x)

    def joules(self, variant: str, epochs: int) -> float:
        """What a whole training would take, by the joules of an epoch; 0 of each that is not known."""
        own = [run.epoch_j for run in self.runs if run.variant == variant]
        return epochs * statistics.fmean(own or [run.epoch_j for run in self.runs] or [0.0])

    def winner(self) -> tuple[str, int] | None:
        """The cheapest arm that reached the target in enough seeds."""
        good = [(v.name, n) for v in self.variants for n in self.lengths if self.reached(v.name, n)]
        return min(good, key=lambda arm: self.joules(*arm), default=None)

    def next_run(self, affordable: Callable[[Variant, int], bool]) -> tuple[Variant, int, int] | None:
        """Variant, epochs and seed; None where nothing is left that would change the answer, or be paid."""
        for variant in self.variants:
            if not any(run.variant == variant.name for run in self.runs) and affordable(variant, self.start):
                return variant, self.start, 0
        best = self.winner()
        limit_j = self.joules(*best) if best else math.inf
        open_arms = [
            (variant, epochs, self.expected(variant, epochs))
            for variant in self.variants
            for epochs in self.lengths
            if not self.settled(variant.name, epochs)
            and self.joules(variant.name, epochs) < limit_j
            and affordable(variant, epochs)
        ]
        arms = [(v, n, value) for v, n, value in open_arms if value is not None]
        likely = [arm for arm in arms if arm[2] >= self.target - SLACK]
        if likely:
            variant, epochs, _ = min(likely, key=lambda arm: self.joules(arm[0].name, arm[1]))
        elif best is None and (new := [arm for arm in arms if not self.of(arm[0].name, arm[1])]):
            # None is expected to reach it: then the one that comes nearest says how far away that is.
            variant, epochs, _ = max(new, key=lambda arm: arm[2])
        else:
            return None
        used = {run.seed for run in self.of(variant.name, epochs)}
        return variant, epochs, next(seed for seed in range(len(used) + 1) if seed not in used)


def runs_of(rows: Iterable[Mapping[str, Any]]) -> list[Run]:
    """Rows of figures, as this search sees them; without an energy meter seconds stand in for joules."""
    return [
        Run(
            variant=row["variant"],
            epochs=row["epochs_asked"],
            seed=row["seed"],
            accuracy=best(row),
            epoch_j=(row["energy_j"] or row["time_s"]) / row["epochs"],
        )
        for row in rows
    ]


def best(row: Mapping[str, Any]) -> float:
    """The highest accuracy that was seen in a training; nought if it came to nothing."""
    seen = [value for value in row["curve"] if value is not None]
    return max(seen, default=0.0) if row["valid"] else 0.0


def reached(row: Mapping[str, Any], target: float) -> dict[str, Any] | None:
    """What it had cost at the end of the first epoch that reached the target, loading included.

    That is the whole less the epochs that came after, so that no sum of short windows is in it.
    """
    hits = [k for k, value in enumerate(row["curve"], start=1) if value is not None and value >= target]
    if not hits or not row["valid"]:
        return None
    first = hits[0]
    after_j = row["epoch_j"][first:]
    known = row["energy_j"] is not None and None not in after_j
    return {
        "epochs": first,
        "energy_j": row["energy_j"] - sum(after_j) if known else None,
        "time_s": row["time_s"] - sum(row["epoch_s"][first:]),
        "samples": row["samples"] * first // row["epochs"],
    }
