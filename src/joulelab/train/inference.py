# SPDX-License-Identifier: Apache-2.0
"""One repeat of an inference: a fresh network, and passes over the held-out data without any training."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

from joulelab.records.trial import Repeat
from joulelab.train.job import Phases, noted, shaped, told
from joulelab.train.precision import precision as make_precision

if TYPE_CHECKING:
    from joulelab.train.job import Job, Meter, Tell


def run_inference(job: Job, *, meter: Meter, on_epoch: Tell, on_progress: Tell) -> Repeat:
    """Load, then a pass an epoch, with the weights of the start: only the cost is asked."""
    torch.manual_seed(job.seed)
    workload = job.workload(job.setting)
    precision = make_precision(job.precision, device=job.setting.device)
    phases = Phases(meter)
    here = job.place()
    samples = 0
    started_s = time.monotonic()

    whole = meter.window("repeat")
    with whole:
        # ---- load ------------------------------------------------------------------------------------------
        on_progress({**here, "phase": "load"})
        with phases("load"):
            workload.load()
        model = shaped(workload.model(), knobs=job.setting.knobs, precision=precision).eval()

        # ---- one pass after the other ----------------------------------------------------------------------
        for epoch in range(1, job.epochs + 1):
            on_progress({**here, "phase": "inference", "epoch": epoch})
            with meter.window("epoch"), phases("inference"), torch.no_grad(), precision.autocast():
                samples += workload.infer(model)
            on_epoch(
                {
                    "repeat": job.index,
                    "warmup": job.warmup,
                    "epoch": epoch,
                    "samples": samples,
                    "time_s": time.monotonic() - started_s,
                }
            )

    total = noted(whole.measurement, (*workload.notes, *precision.notes))
    on_progress({**here, "phase": "end", "epoch": job.epochs, **told(total)})
    return Repeat(
        index=job.index,
        seed=job.seed,
        warmup=job.warmup,
        total=total,
        phases=phases.sums(),
        samples=samples,
        epochs=job.epochs,
        task="inference",
    )
