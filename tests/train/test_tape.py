# SPDX-License-Identifier: Apache-2.0
"""Means over samples, fetched seldom, and the step at which a loss was lost."""

from __future__ import annotations

import pytest
import torch

from joulelab.train.tape import Tape
from joulelab.workloads.workload import Step


def step(loss: float, *, samples: int = 1, accuracy: float = 0.0) -> Step:
    return Step(torch.tensor(loss), samples, {"accuracy": torch.tensor(accuracy)})


def tape(*, rows: int = 4) -> Tape:
    return Tape(("accuracy",), dtype=torch.float32, rows=rows)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 9])
def test_means_are_weighted_by_samples(count: int) -> None:
    kept = tape()
    for k in range(count):
        assert kept.put(step(k, samples=k + 1, accuracy=k % 2), step=1) == ""
    means, wrong = kept.end_epoch()
    assert wrong == ""
    weights = range(1, count + 1)
    assert means["loss"] == pytest.approx(sum(k * w for k, w in enumerate(weights)) / sum(weights))
    assert means["accuracy"] == pytest.approx(sum(k % 2 * w for k, w in enumerate(weights)) / sum(weights))
    assert kept.samples == sum(weights)


def test_an_epoch_begins_anew_and_the_count_of_samples_goes_on() -> None:
    kept = tape()
    kept.put(step(8.0), step=1)
    kept.end_epoch()
    kept.put(step(2.0), step=2)
    assert kept.end_epoch() == ({"loss": 2.0, "accuracy": 0.0}, "")
    assert kept.samples == 2


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_names_the_first_bad_step_once_it_has_fetched(bad: float) -> None:
    kept = tape()
    assert [kept.put(step(x), step=k) for k, x in enumerate((1.0, bad, bad), start=1)] == ["", "", ""]
    assert kept.put(step(1.0), step=4) == f"the loss was {bad} at step 2"


def test_finds_a_bad_step_at_the_end_of_the_epoch() -> None:
    kept = tape(rows=64)
    kept.put(step(1.0), step=1)
    kept.put(step(float("nan")), step=2)
    means, wrong = kept.end_epoch()
    assert wrong == "the loss was nan at step 2"
    assert means == {"loss": 1.0, "accuracy": 0.0}


def test_an_epoch_without_a_batch_has_no_means() -> None:
    assert tape().end_epoch() == ({}, "")


@pytest.mark.parametrize("at", [1, 3, 4, 6])
def test_a_tape_goes_on_from_its_state(at: int) -> None:
    one, other = tape(), tape()
    for k in range(at):
        one.put(step(1.0 / (k + 3), samples=k + 1), step=k)
    other.restore(one.state())
    for k in range(at, 9):
        for each in (one, other):
            each.put(step(1.0 / (k + 3), samples=k + 1), step=k)
    assert other.samples == one.samples
    assert other.end_epoch() == one.end_epoch()


def test_a_loss_that_was_lost_before_a_restart_is_found_after_it() -> None:
    one, other = tape(), tape()
    one.put(step(float("nan")), step=7)
    other.restore(one.state())
    assert other.end_epoch()[1] == "the loss was nan at step 7"
