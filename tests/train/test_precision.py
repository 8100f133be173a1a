# SPDX-License-Identifier: Apache-2.0
"""Formats, and steps that were taken against steps that were asked for."""

from __future__ import annotations

import pytest
import torch

from joulelab.errors import InputError, TrialError
from joulelab.knobs.precision import PrecisionKnob
from joulelab.train.precision import PRECISIONS, Fp16, precision

CPU = torch.device("cpu")


def test_every_value_of_the_knob_has_its_arithmetic() -> None:
    assert set(PRECISIONS) == set(PrecisionKnob.parameter.choices)


def test_a_misspelt_name_gets_the_legal_ones() -> None:
    with pytest.raises(InputError, match="did you mean 'bf16'"):
        precision("bf61", device=CPU)


@pytest.mark.parametrize(
    ("name", "product"),
    [("fp32", torch.float32), ("fp64", torch.float64), ("bf16", torch.bfloat16), ("fp16", torch.float16)],
)
def test_products_are_done_in_the_format_asked_for(name: str, product: torch.dtype) -> None:
    chosen = precision(name, device=CPU)
    layer = torch.nn.Linear(4, 4, dtype=chosen.dtype)
    with chosen.autocast():
        out = layer(torch.ones(2, 4, dtype=chosen.dtype))
    assert out.dtype == product
    assert layer.weight.dtype == (torch.float64 if name == "fp64" else torch.float32)


@pytest.mark.parametrize(("width", "noted"), [(1000, True), (1008, False)])
def test_eight_bits_that_no_layer_can_take_are_told(width: int, noted: bool) -> None:  # noqa: FBT001
    chosen = precision("fp8", device=CPU)
    chosen.fit(torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.Linear(2048, width)))
    assert bool(chosen.notes) == noted
    assert all("multiples of 16, so this was bf16" in note for note in chosen.notes)


def one_weight() -> tuple[torch.nn.Parameter, torch.optim.Optimizer]:
    weight = torch.nn.Parameter(torch.ones(1))
    return weight, torch.optim.SGD([weight], lr=0.5)


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16"])
def test_a_step_descends_and_clears(name: str) -> None:
    weight, optimizer = one_weight()
    chosen = precision(name, device=CPU)
    chosen.watch(optimizer)
    chosen.step((2.0 * weight).sum(), optimizer)
    assert weight.item() == 0.0
    assert weight.grad is None
    assert (chosen.attempted, chosen.skipped, chosen.complaint(finished=True)) == (1, 0, "")


def test_an_overflow_is_skipped_and_counted_and_the_scale_falls() -> None:
    weight, optimizer = one_weight()
    chosen = Fp16(CPU, first_scale=4.0)
    chosen.watch(optimizer)
    for _ in range(2):
        chosen.step((weight * float("inf")).sum(), optimizer)
    assert weight.item() == 1.0
    assert chosen.skipped == 2
    assert chosen.scaler.get_scale() == 1.0
    # 4, 2, 1: two halvings are the warm-up, and a third is a run that does not learn.
    assert chosen.complaint(finished=False) == ""
    chosen.step((weight * float("inf")).sum(), optimizer)
    assert chosen.complaint(finished=False) == "3 of 3 optimizer steps were skipped, more than 2"


def test_later_trials_of_a_higher_scale_are_tolerated() -> None:
    weight, optimizer = one_weight()
    chosen = Fp16(CPU, first_scale=1.0, growth_interval=3)
    chosen.watch(optimizer)
    for k in range(9):
        factor = float("inf") if k in (3, 7) else 1.0
        chosen.step((weight * factor).sum(), optimizer)
    assert chosen.skipped == 2
    assert chosen.complaint(finished=True) == ""


def test_a_fused_optimizer_is_refused_under_loss_scaling() -> None:
    # It returns from a skipped step as if it had taken it, so that the count above would see nothing.
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9, fused=True)
    with pytest.raises(TrialError, match="fused=True"):
        precision("fp16", device=CPU).watch(optimizer)
    precision("bf16", device=CPU).watch(optimizer)


def test_another_library_s_optimizer_that_takes_the_verdict_itself_is_refused_too() -> None:
    class Apex(torch.optim.SGD):
        _step_supports_amp_scaling = True

    optimizer = Apex([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    with pytest.raises(TrialError, match="Apex under fp16 loss scaling hides skipped steps"):
        precision("fp16", device=CPU).watch(optimizer)


def test_a_kernel_that_moves_on_an_overflow_is_what_is_refused() -> None:
    # As the fused step of SGD was seen to do: momentum goes on, and after the first overflow it is NaN. All
    # later steps are then skipped, which is cheap, and no count shows it.
    class Moving(torch.optim.SGD):
        _step_supports_amp_scaling = True

        @torch.no_grad()
        def step(self, closure: None = None) -> None:  # type: ignore[override]
            for p in self.param_groups[0]["params"]:
                momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
                momentum.mul_(0.9).add_(p.grad)
                if not float(self.found_inf):  # type: ignore[attr-defined]
                    p.sub_(momentum, alpha=0.1)

    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = Moving([weight], lr=0.1)
    chosen = Fp16(CPU, first_scale=4.0)
    # The check of `watch` is gone around.
    optimizer.register_step_post_hook(chosen._count)
    for factor in (float("inf"), 1.0):
        chosen.step((weight * factor).sum(), optimizer)
    assert chosen.skipped == 0, "the skipped step was counted as taken"
    assert not weight.isfinite().all(), "and the run is lost"


@pytest.mark.parametrize("name", ["fp32", "fp16"])
def test_steps_and_the_scale_go_on_from_a_state(name: str) -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    one, other = (precision(name, device=CPU) for _ in range(2))
    one.watch(optimizer)
    one.step(weight.sum(), optimizer)
    one.step((weight * float("inf")).sum() if name == "fp16" else weight.sum(), optimizer)
    state = one.state()
    other.restore(state)
    assert (other.attempted, other.skipped) == (2, int(name == "fp16"))
    assert other.state() == state
    if isinstance(other, Fp16):
        assert state["scaler"]["scale"] == 2.0**15


def test_between_the_batches_of_a_step_there_are_gradients_to_keep() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    chosen = precision("fp32", device=CPU, accumulate=2)
    seen = []
    for _ in range(2):
        chosen.step(weight.sum(), optimizer)
        seen.append(chosen.between_steps)
    assert seen == [False, True]
