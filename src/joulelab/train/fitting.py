# SPDX-License-Identifier: Apache-2.0
"""After memory ran out: the largest of half the batch, a quarter and so on that fits, tried out."""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import torch

from joulelab.train.job import shaped
from joulelab.train.precision import precision as make_precision

if TYPE_CHECKING:
    from joulelab.train.job import Job

LIMIT_S = 60.0  # for all of it: the study waits
STEPS = 2  # the second one has what the optimizer keeps in memory, too


def ran_out(error: BaseException) -> bool:
    """Whether this is memory, of whichever device, that was not enough."""
    torch_said = isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    return torch_said or isinstance(error, MemoryError | torch.OutOfMemoryError)


def fitting(job: Job, *, limit_s: float = LIMIT_S) -> int | None:
    """The batch size that fits, tried out; 0 where not even one sample does; None where nobody can tell."""
    until_s = time.monotonic() + limit_s
    size = int(job.setting.knobs["batch_size"])
    while size > 1 and time.monotonic() < until_s:
        size //= 2
        release()
        try:
            _try(job, size)
        except Exception as error:  # noqa: BLE001  a workload may refuse a small batch in its own way
            if not ran_out(error):
                return None
        else:
            return size
        finally:
            release()
    return 0 if size == 1 else None


def release() -> None:
    """Give memory back that nobody holds any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _try(job: Job, size: int) -> None:
    # Compiled code needs no more memory than the same code uncompiled, and takes long to make.
    knobs = {**job.setting.knobs, "batch_size": size, "compile": "off"}
    setting = replace(job.setting, knobs=knobs)
    workload = job.workload(setting)
    precision = make_precision(job.precision, device=setting.device)
    workload.load()
    model = shaped(workload.model(), knobs=knobs, precision=precision).train()
    optimizer = workload.optimizer(model)
    order = torch.Generator().manual_seed(job.seed)
    for given in islice(workload.batches(1, order), STEPS):
        batch = workload.place(given)
        with precision.autocast():
            step = workload.loss(model, batch)
        precision.step(step.loss, optimizer)
    float(step.loss.detach())  # waits for the device, which may run out of memory late
