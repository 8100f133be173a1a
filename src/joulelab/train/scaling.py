# SPDX-License-Identifier: Apache-2.0
"""What the number of workers changes: the rate from step to step, the optimizer, what must be warned of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from joulelab.knobs.sharing import MEASURED, RATE_RULES, workers_of
from joulelab.train.layerwise import LAYERWISE
from joulelab.train.noise import Noise
from joulelab.train.ranks import apart
from joulelab.train.rate import Rate, Warmup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from joulelab.records.parameter import Scalar


def rate_of(knobs: Mapping[str, Scalar]) -> Rate:
    """`knobs` as one worker has them: batch_size is its own."""
    workers, rule = workers_of(knobs), str(knobs.get("rate_rule", "none"))
    if workers == 1:
        return Rate()
    if rule in MEASURED:
        return Noise(workers=workers, batch_size=int(knobs["batch_size"]), turns=turns_of(knobs))
    updates = int(knobs.get("warmup_updates", 0))
    return Warmup(times=workers ** RATE_RULES[rule], updates=updates) if updates else Rate()


def optimizer_of(made: torch.optim.Optimizer, knobs: Mapping[str, Scalar]) -> torch.optim.Optimizer:
    """The workload's own optimizer, or the one that the knob puts in its place."""
    name = str(knobs.get("layerwise", "off"))
    return made if name == "off" else LAYERWISE[name](made)


def turns_of(knobs: Mapping[str, Scalar]) -> int:
    """How many workers this process does the work of."""
    return workers_of(knobs) if knobs.get("emulated") else 1


def orders(knobs: Mapping[str, Scalar], *, seed: int, rank: int) -> list[torch.Generator]:
    """What the order of the samples is drawn from: this worker's, then those of the workers emulated here."""
    if knobs.get("sharing", "shard") == "shard":
        rank = 0  # one order for all, which is dealt out
    ranks = [rank, *range(1, turns_of(knobs))]
    return [torch.Generator().manual_seed(apart(seed, each)) for each in ranks]


def warnings(knobs: Mapping[str, Scalar], *, samples: int, rate: Rate) -> tuple[str, ...]:
    """What must be known of figures that so large a batch gave. `samples`: an epoch's, of all workers."""
    workers = workers_of(knobs)
    if knobs.get("sharing", "shard") != "shard":
        samples //= workers  # all have seen the same ones
    batch = workers * int(knobs["batch_size"])
    said = []
    if workers > 1 and batch > samples:
        said.append(
            f"a step averages {batch:,} samples of {samples:,}: more do not make its gradient any less noisy"
        )
    scale = rate.noise_scale if isinstance(rate, Noise) else 0.0
    if workers > 1 and 0.0 < scale < batch:
        said.append(f"a step averages {batch:,} samples, beyond the noise scale of about {scale:,.0f}")
    return tuple(said)
