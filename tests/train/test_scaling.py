# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import torch

from joulelab.train.layerwise import Lars
from joulelab.train.noise import Noise
from joulelab.train.rate import Rate, Warmup
from joulelab.train.scaling import optimizer_of, orders, rate_of, turns_of, warnings

KNOBS: dict[str, Any] = {"batch_size": 20, "workers": 48, "sharing": "partition", "rate_rule": "linear"}


def test_the_rate_follows_the_rule() -> None:
    assert type(rate_of(KNOBS)) is Rate
    assert type(rate_of({**KNOBS, "warmup_updates": 10})) is Warmup
    assert type(rate_of({**KNOBS, "rate_rule": "noise"})) is Noise
    assert type(rate_of({**KNOBS, "rate_rule": "noise", "workers": 1})) is Rate


def test_orders_are_one_for_all_where_rows_are_dealt_and_each_ones_own_elsewhere() -> None:
    def first(sharing: str, rank: int, **more: Any) -> list[int]:
        found = orders({**KNOBS, "sharing": sharing, **more}, seed=3, rank=rank)
        return [int(torch.randint(2**40, (1,), generator=each)) for each in found]

    assert first("shard", 0) == first("shard", 5)
    assert first("partition", 0) == first("shard", 0)
    assert first("partition", 1) != first("partition", 0)
    emulated = first("partition", 0, workers=3, emulated=True)
    assert emulated == [first("partition", rank)[0] for rank in range(3)]
    assert turns_of({"workers": 3, "emulated": True}) == 3
    assert turns_of({"workers": 3}) == 1


def test_an_optimizer_is_replaced_only_if_asked() -> None:
    made = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    assert optimizer_of(made, {}) is made
    assert isinstance(optimizer_of(made, {"layerwise": "lars"}), Lars)


def test_a_batch_beyond_the_samples_or_the_noise_is_warned_of() -> None:
    assert warnings({**KNOBS, "workers": 1}, samples=10, rate=Rate()) == ()
    # 48 workers, each of which has seen all 1,120 samples: a step of 960 is fewer.
    assert warnings(KNOBS, samples=48 * 1_120, rate=Rate()) == ()
    (said,) = warnings({**KNOBS, "workers": 96}, samples=96 * 1_120, rate=Rate())
    assert "1,920 samples of 1,120" in said
    rate = Noise(workers=48, batch_size=20, turns=48)
    rate.noise_scale = 500.0
    (said,) = warnings(KNOBS, samples=48 * 1_120, rate=rate)
    assert "960 samples, beyond the noise scale of about 500" in said
