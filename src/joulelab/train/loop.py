# SPDX-License-Identifier: Apache-2.0
"""One repeat of a training, from fresh weights to its figures, top to bottom."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from joulelab.knobs.target import parse as parse_target
from joulelab.records.trial import Repeat
from joulelab.train.checkpoint_state import Parts
from joulelab.train.job import Phases, noted, shaped, shown, told
from joulelab.train.keeper import keeper
from joulelab.train.precision import precision as make_precision
from joulelab.train.scaling import optimizer_of, orders, rate_of, turns_of, warnings
from joulelab.train.tape import Tape
from joulelab.train.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from joulelab.train.job import Job, Meter, Tell


def run_repeat(  # noqa: PLR0915  a loop is read from top to bottom
    job: Job, *, meter: Meter, on_epoch: Tell, on_progress: Tell
) -> Repeat:
    """Load, train, evaluate. `on_epoch` is given the line for metrics.jsonl, `on_progress` what to show."""
    torch.manual_seed(job.seed)
    ranks, knobs, trace = job.ranks, job.setting.knobs, job.ranks.trace
    # The order of the samples has a generator of its own: dropout in a model must not change what it is
    # shown.
    order, *others = orders(knobs, seed=job.seed, rank=ranks.rank)
    workload = job.workload(replace(job.setting, others=tuple(others)))
    target = parse_target(str(knobs.get("target", "")))
    precision = make_precision(
        job.precision,
        device=job.setting.device,
        accumulate=int(knobs.get("accumulate", 1)) * turns_of(knobs),
        clip=workload.clip,
    )
    precision.average = ranks.average
    precision.rate, precision.trace = rate_of(knobs), trace
    tape = Tape(workload.metrics, dtype=precision.dtype, ranks=ranks, device=job.setting.device)
    waiting = Waiting()
    phases = Phases(meter)
    here = job.place()
    figures: dict[str, float] = {}
    wrong = ""  # the first thing that makes the figures worthless, in words
    reached = None if target is None else False
    evaluated: dict[str, float] = {}
    epoch = 0
    started_s = time.monotonic()

    whole = meter.window("repeat")
    with whole:
        # ---- load ------------------------------------------------------------------------------------------
        on_progress({**here, "phase": "load"})
        with phases("load"):
            workload.load()

        # Making the model belongs to no phase: it is in the total only. Compiling, if asked for, happens when
        # the model is first called, and so within the first epoch.
        model = shaped(workload.model(), knobs=knobs, precision=precision)
        # One worker or many: after this a backward pass leaves the mean of all workers' gradients.
        ranks.spread(model)
        optimizer = optimizer_of(workload.optimizer(model), knobs)
        precision.watch(optimizer)
        precision.rate.watch(optimizer, ranks=ranks)
        if ranks.rank:
            torch.manual_seed(ranks.seed(job.seed))  # the first weights are alike, what is dropped is not
        # Where an earlier attempt at this repeat left a checkpoint, it goes on from there.
        keep = keeper(
            job,
            Parts(
                model=model,
                optimizer=optimizer,
                workload=workload,
                precision=precision,
                tape=tape,
                waiting=waiting,
                orders=(order, *others),
                whole=whole,
                phases=phases,
            ),
        )
        started_s -= keep.time_s

        for epoch in range(keep.first_epoch, job.epochs + 1):
            with meter.window("epoch"):
                # ---- train ---------------------------------------------------------------------------------
                on_progress({**here, "phase": "train", "epoch": epoch, **shown(figures)})
                with phases("train"):
                    model.train()
                    trace.begin_epoch(epoch)
                    trace.begin_step(precision.attempted + 1)
                    for given in keep.batches(epoch):
                        trace.mark("data")
                        batch = workload.place(given)
                        ranks.last_of_step(precision.completes)
                        with precision.autocast():
                            step = workload.loss(model, batch)
                        trace.mark("forward")
                        if precision.step(step.loss, optimizer):
                            workload.on_step_end(model, optimizer, step=precision.attempted)
                            trace.mark("update")
                            trace.begin_step(precision.attempted + 1)
                        # Nothing here waits for the device: the tape and the scaler's own check do so when
                        # they must.
                        wrong = tape.put(step, step=precision.attempted)
                        if wrong:
                            break
                    if precision.end_epoch(optimizer):
                        workload.on_step_end(model, optimizer, step=precision.attempted)
                    # Inside the window, because fetching the last losses waits for the last step.
                    figures, wrong_at_end = tape.end_epoch()
                trace.end_epoch()
                wrong = wrong or wrong_at_end or precision.complaint(finished=epoch == job.epochs)

                # ---- evaluate ------------------------------------------------------------------------------
                if not wrong:
                    on_progress({**here, "phase": "evaluate", "epoch": epoch, **shown(figures)})
                    with phases("evaluate"):
                        model.eval()
                        with torch.no_grad(), precision.autocast():
                            evaluated = ranks.same(workload.evaluate(model))
                    figures |= evaluated
                    wrong = _not_finite(figures, epoch=epoch)

            # ---- what was learnt ---------------------------------------------------------------------------
            on_epoch(
                {
                    "repeat": job.index,
                    "warmup": job.warmup,
                    "epoch": epoch,
                    **figures,
                    **precision.rate.figures(),
                    "skipped_steps": precision.skipped,
                    "waiting_s": waiting.time_s,
                    "time_s": time.monotonic() - started_s,
                }
            )
            # Stopped at once: what a run costs that does not learn is of no use to anybody.
            if wrong:
                break
            # A recipe may leave evaluations out: an epoch without one has reached nothing.
            if target is not None and evaluated:
                reached = target.reached(figures)
            if workload.on_epoch_end(figures, optimizer) or reached:
                break
    ranks.release(model)
    # Whole numbers: as fp32 a count would be rounded from 17 million on.
    samples = int(ranks.add(torch.tensor([tape.samples], device=job.setting.device)).item())

    # Only now are the windows asked for their figures: the answer is awaited, and nothing is being measured
    # here. A target reached early ends the run before `finished` was ever said.
    wrong = wrong or precision.complaint(finished=True)
    large = warnings(knobs, samples=samples // epoch, rate=precision.rate)
    total = noted(whole.measurement, (*workload.notes, *precision.notes, *large))
    repeat = Repeat(
        index=job.index,
        seed=job.seed,
        warmup=job.warmup,
        total=total,
        phases=phases.sums(),
        samples=samples,
        epochs=epoch,
        metrics={name: value for name, value in figures.items() if math.isfinite(value)},
        waiting_s=waiting.time_s,
        target=str(knobs.get("target", "")),
        reached=reached and not wrong,
        skipped_steps=precision.skipped,
        valid=not wrong,
        reason=wrong,
    )
    repeat = keep.finished(repeat)
    on_progress({**here, "phase": "end", "epoch": epoch, **told(repeat.total), **shown(figures)})
    return repeat


def _not_finite(figures: Mapping[str, float], *, epoch: int) -> str:
    bad = [f"{name} was {value}" for name, value in figures.items() if not math.isfinite(value)]
    return f"{', '.join(bad)} after epoch {epoch}" if bad else ""
