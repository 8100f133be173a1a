# SPDX-License-Identifier: Apache-2.0
"""One repeat: its windows, its figures, and what makes it worthless."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch

from joulelab.errors import InputError
from joulelab.train.loop import run_repeat
from joulelab.train.tape import ROWS, Tape
from tests.train.train_parts import Diverging, FakeMeter, Overflowing, Reaching, Toy, job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from joulelab.records.trial import Repeat
    from joulelab.train.job import Job
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
        "waiting_s",
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


@pytest.mark.parametrize("precision", ["fp32", "fp16", "fp64"])
def test_four_quarters_of_a_batch_are_one_batch(precision: str) -> None:
    whole = run(job(batch_size=16, epochs=2, precision=precision))[0]
    parts = run(job(batch_size=4, accumulate=4, epochs=2, precision=precision))[0]
    # 40 samples: the last step of an epoch has two parts of four, and descends as far as a batch of eight.
    rel = {"fp32": 1e-5, "fp16": 2e-2, "fp64": 1e-12}[precision]
    assert parts.metrics["val_loss"] == pytest.approx(whole.metrics["val_loss"], rel=rel)
    assert parts.metrics["loss"] == pytest.approx(whole.metrics["loss"], rel=rel)
    assert (parts.samples, parts.skipped_steps) == (80, 0)


def test_a_workload_hears_of_optimizer_steps_and_not_of_batches() -> None:
    class Counting(Toy):
        def on_step_end(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, step: int) -> None:
            seen.append(step)

    seen: list[int] = []
    run(job(Counting, batch_size=8, accumulate=2, epochs=2))
    assert seen == [1, 2, 3, 4, 5, 6], "five batches an epoch are two full steps and one that is not"


def test_the_norm_of_the_gradients_is_limited() -> None:
    class Clipped(Toy):
        clip = 1e-3

        def optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
            before.append(model.weight.detach().clone())  # type: ignore[operator]
            made.append(model)
            return super().optimizer(model)

    for precision in ("fp32", "fp16"):
        before: list[torch.Tensor] = []
        made: list[torch.nn.Module] = []
        run(job(Clipped, batch_size=40, epochs=1, learning_rate=1.0, precision=precision))
        moved = made[0].weight.detach() - before[0]  # type: ignore[operator]
        assert 0.5e-3 < moved.norm().item() <= 1.001e-3, precision


@pytest.mark.parametrize("text", ["val_accuracy >= 0.5", "val_loss<=0.6"])
def test_a_target_asked_for_ends_the_run_and_is_recorded(text: str) -> None:
    repeat, epochs, _, _ = run(job(epochs=50, target=text))
    assert (repeat.target, repeat.reached, repeat.valid) == (text, True, True)
    assert repeat.epochs == len(epochs) < 50
    figure = text.partition(" ")[0].partition("<")[0]
    crossed = [line[figure] >= 0.5 if figure == "val_accuracy" else line[figure] <= 0.6 for line in epochs]
    assert crossed == [False] * (len(epochs) - 1) + [True]


def test_a_target_never_reached_stops_at_the_limit_and_says_so() -> None:
    repeat, epochs, _, _ = run(job(epochs=3, target="val_accuracy >= 2"))
    assert (repeat.reached, repeat.valid, repeat.epochs, len(epochs)) == (False, True, 3, 3)
    assert run(job(epochs=1))[0].reached is None
    assert run(job(Diverging, epochs=9, target="val_accuracy >= 2"))[0].reached is False


def test_a_target_that_names_no_figure_is_refused_with_the_legal_ones() -> None:
    with pytest.raises(
        InputError, match=r"did you mean 'val_accuracy'\?.*accuracy, loss, val_accuracy, val_loss"
    ):
        run(job(target="val_acuracy >= 0.5"))


def test_waiting_for_a_slow_source_is_counted_and_its_placing_is_not() -> None:
    class Slow(Toy):
        def batches(self, epoch: int, generator: torch.Generator) -> Iterator[Any]:
            for batch in super().batches(epoch, generator):
                time.sleep(0.002)
                yield batch

        def place(self, batch: Any) -> Any:
            time.sleep(0.02)
            return batch

    repeat, epochs, _, _ = run(job(Slow, epochs=2))
    assert repeat.waiting_s is not None
    assert 10 * 0.002 <= repeat.waiting_s < 10 * 0.02
    assert epochs[0]["waiting_s"] < epochs[1]["waiting_s"] == repeat.waiting_s


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_a_compiled_network_learns_the_same() -> None:
    from torch._dynamo.utils import counters
    from torch._inductor.async_compile import AsyncCompile

    counters.clear()
    plain, compiled = (run(job(epochs=2, compile=how))[0].metrics for how in ("off", "on"))
    assert compiled == pytest.approx(plain, rel=1e-5)
    assert counters["stats"]["unique_graphs"] >= 1
    AsyncCompile.pool().shutdown()  # the compiler would keep its threads
    AsyncCompile.pool.cache_clear()


def test_samples_are_counted_to_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # One more than fp32 can tell apart from its neighbour.
    def many(tape: Tape) -> tuple[dict[str, float], str]:
        tape.samples = 2**24 + 1
        return {}, ""

    monkeypatch.setattr(Tape, "end_epoch", many)
    meter = FakeMeter()
    repeat = run_repeat(job(epochs=1), meter=meter, on_epoch=lambda _: None, on_progress=lambda _: None)
    assert repeat.samples == 2**24 + 1
