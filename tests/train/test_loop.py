# SPDX-License-Identifier: Apache-2.0
"""One repeat: its windows, its figures, and what makes it worthless."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import torch

from joulelab.records.measurement import Measurement
from joulelab.train.loop import Job, add_up, run_repeat
from joulelab.train.tape import ROWS
from tests.train.train_parts import Diverging, FakeMeter, Overflowing, Reaching, Toy, job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from joulelab.records.trial import Repeat
    from joulelab.workloads.workload import Step


def run(asked: Job) -> tuple[Repeat, list[dict[str, Any]], list[dict[str, Any]], FakeMeter]:
    meter, epochs, shown = FakeMeter(), [], []  # type: ignore[var-annotated]
    repeat = run_repeat(asked, meter=meter, on_epoch=epochs.append, on_progress=shown.append)
    return repeat, epochs, shown, meter


def test_windows_are_named_and_nested() -> None:
    repeat, _, _, meter = run(job(epochs=2))
    one_epoch = ["  epoch", "    train", "    evaluate"]
    assert meter.events == ["repeat", "  load", *one_epoch, *one_epoch]
    assert repeat.total.energy_j == 2.0
    assert {name: phase.energy_j for name, phase in repeat.phases.items()} == {
        "load": 2.0,
        "train": 4.0,
        "evaluate": 4.0,
    }


def test_it_learns_and_says_how_far() -> None:
    repeat, epochs, _, _ = run(job(epochs=6))
    assert repeat.valid
    assert (repeat.samples, repeat.epochs, repeat.skipped_steps) == (240, 6, 0)
    assert repeat.metrics["val_accuracy"] > 0.9
    assert [line["epoch"] for line in epochs] == [1, 2, 3, 4, 5, 6]
    wanted = {
        "repeat",
        "warmup",
        "epoch",
        "loss",
        "accuracy",
        "val_loss",
        "val_accuracy",
        "skipped_steps",
        "time_s",
    }
    assert all(set(line) == wanted for line in epochs)
    losses = [line["loss"] for line in epochs]
    assert losses == sorted(losses, reverse=True)
    assert [line["time_s"] for line in epochs] == sorted(line["time_s"] for line in epochs)
    assert repeat.metrics == {
        name: epochs[-1][name] for name in ("loss", "accuracy", "val_loss", "val_accuracy")
    }


def test_the_loss_shown_is_the_mean_over_samples_while_the_weights_move() -> None:
    # Batches of 16, 16 and 8: a mean over batches would weigh the last one double.
    torch.manual_seed(1)
    toy = Toy(job(batch_size=16).setting)
    toy.load()
    model = toy.model()
    optimizer = toy.optimizer(model)
    total = 0.0
    for batch in toy.batches(1, torch.Generator().manual_seed(1)):
        step = toy.loss(model, batch)
        total += step.loss.item() * step.samples
        step.loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    _, epochs, _, _ = run(job(batch_size=16, epochs=1))
    assert epochs[0]["loss"] == pytest.approx(total / 40, rel=1e-6)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64", "fp16"])
def test_a_seed_gives_the_same_losses_to_the_bit(precision: str) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        first, again, other = (
            [(line["loss"], line["val_loss"]) for line in run(job(seed=seed, precision=precision))[1]]
            for seed in (5, 5, 6)
        )
    finally:
        torch.set_num_threads(threads)
    assert first == again
    assert first != other


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_step() -> None:
    repeat, epochs, _, meter = run(job(Diverging, epochs=50))
    assert not repeat.valid
    assert repeat.reason == "the loss was nan at step 8"
    assert repeat.epochs == 2
    assert meter.events.count("    train") == 2
    assert meter.events.count("    evaluate") == 1, "what does not learn is not evaluated"
    assert all(math.isfinite(value) for value in repeat.metrics.values())
    assert len(epochs) == 2


def test_a_long_epoch_is_left_soon_after_the_loss_was_lost() -> None:
    class Long(Diverging):
        def batches(self, epoch: int, generator: torch.Generator) -> Iterator[Any]:
            for _ in range(100):
                yield from super().batches(epoch, generator)

        def loss(self, model: torch.nn.Module, batch: Any) -> Step:
            seen.append(1)
            return super().loss(model, batch)

    seen: list[int] = []
    repeat, _, _, _ = run(job(Long))
    assert repeat.reason == "the loss was nan at step 8"
    assert len(seen) == ROWS < 500


def test_a_scaler_that_skips_every_step_makes_the_run_invalid() -> None:
    # Finite losses, no error, cheap steps: by its figures alone this would be the thriftiest run of a study.
    repeat, epochs, _, _ = run(job(Overflowing, precision="fp16", epochs=20))
    assert all(math.isfinite(line["loss"]) for line in epochs)
    assert not repeat.valid
    assert "optimizer steps were skipped" in repeat.reason
    assert repeat.skipped_steps == 20, (
        "stopped after the epoch in which the scaler's warm-up of 16 was passed"
    )


def test_a_run_shorter_than_the_warm_up_that_learns_nothing_is_invalid_too() -> None:
    repeat, _, _, _ = run(job(Overflowing, precision="fp16", epochs=2))
    assert not repeat.valid
    assert repeat.reason == "10 of 10 optimizer steps were skipped: most of the run"


def test_a_target_ends_the_run_early() -> None:
    repeat, epochs, _, _ = run(job(Reaching, epochs=50))
    assert repeat.valid
    assert repeat.epochs == len(epochs) < 50
    assert epochs[-1]["val_accuracy"] > 0.5


def test_progress_tells_phase_epoch_and_figures() -> None:
    repeat, _, shown, _ = run(job(epochs=2))
    assert [step["phase"] for step in shown] == ["load", "train", "evaluate", "train", "evaluate", "end"]
    assert all(step["repeat"] == step["of"] == 1 and step["epochs"] == 2 for step in shown)
    assert shown[-1]["energy_j"] == 2.0
    assert shown[-1]["accuracy"] == repeat.metrics["val_accuracy"]


def test_a_sum_over_a_lost_sensor_is_no_number() -> None:
    counted = Measurement(time_s=1, energy_j=5, energy_error_j=1, source="counter")
    guessed = Measurement(time_s=2, energy_j=9, energy_error_j=4, source="estimated")
    total = add_up([counted, counted, guessed])
    assert (total.time_s, total.energy_j) == (4, None)
    assert total.flags
    assert add_up([counted, counted]).energy_j == 10
