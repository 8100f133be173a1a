# SPDX-License-Identifier: Apache-2.0
"""What each of several workers is given, worked out by hand."""

from __future__ import annotations

import pytest

from joulelab.errors import InputError
from joulelab.knobs.sharing import check_shared, processes_of, shared

ONE = {"batch_size": 100, "learning_rate": 0.001, "epochs": 384}


def test_one_worker_is_given_what_was_asked() -> None:
    assert shared(ONE) == {}
    assert shared({**ONE, "workers": 1, "batch_rule": "linear", "rate_rule": "linear"}) == {}


@pytest.mark.parametrize(
    ("rule", "batch"), [("constant", 100), ("cbrt", 363), ("sqrt", 692), ("linear", 4800)]
)
def test_batch_rules_of_the_2019_study_at_48_workers(rule: str, batch: int) -> None:
    # int(100 x 48 ** (1 / 3)) = 363 is the study's own example.
    assert shared({**ONE, "workers": 48, "batch_rule": rule})["batch_size"] == batch


@pytest.mark.parametrize(
    ("rule", "rate"), [("none", 0.001), ("sqrt", 0.004), ("linear", 0.016), ("noise", 0.001)]
)
def test_rate_rules(rule: str, rate: float) -> None:
    assert shared({**ONE, "workers": 16, "rate_rule": rule})["learning_rate"] == pytest.approx(rate)


def test_epochs_are_dealt_out_only_where_that_was_asked() -> None:
    assert shared({**ONE, "workers": 96, "sharing": "partition"})["epochs"] == 4
    for sharing in ("shard", "whole"):
        assert shared({**ONE, "workers": 96, "sharing": sharing})["epochs"] == 384


def test_an_uneven_division_is_refused_with_the_divisors() -> None:
    with pytest.raises(InputError, match="12 epochs cannot be dealt out evenly to 5 workers") as refused:
        check_shared({**ONE, "epochs": 12, "workers": 5, "sharing": "partition"})
    assert "workers = 1, 2, 3, 4, 6, 12;" in str(refused.value)


def test_emulated_workers_are_one_process() -> None:
    assert processes_of({"workers": 96, "emulated": True}) == 1
    assert processes_of({"workers": 96}) == 96
    assert processes_of({}) == 1


def test_what_cannot_be_done_together_is_refused() -> None:
    with pytest.raises(InputError, match="already made of many batches"):
        check_shared({**ONE, "workers": 4, "emulated": True, "accumulate": 2})
    with pytest.raises(InputError, match="inference"):
        check_shared({**ONE, "workers": 4, "task": "inference"})
