# SPDX-License-Identifier: Apache-2.0
"""How a trial ended, and what is written down of it, by one process or by several."""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

import msgspec

from joulelab.records import store
from joulelab.records.layout import SCHEMA
from joulelab.records.measurement import Measurement
from joulelab.records.ranks import RankRecord, blamed
from joulelab.records.ranks import write as write_rank
from joulelab.records.trial import Repeat, result_of
from joulelab.train.distributed import rank_here
from joulelab.train.fitting import fitting
from joulelab.train.stopping import Stopped

if TYPE_CHECKING:
    from joulelab.records.layout import TrialFolder
    from joulelab.train.job import Job

CONFESSION_S = 2.0  # how long the first worker waits for one that failed to say why


class Ending(msgspec.Struct):
    """How the trial ended, filled in as it goes."""

    state: str = "done"
    reason: str = ""
    exit_code: int = 0
    total: Measurement | None = None
    lost: Measurement | None = None
    repeats: list[Repeat] = []
    kept: Any = None  # the Checkpoints of the trial
    job: Any = None  # the Job that ran last
    ranks: Any = None  # the Ranks, once they have met
    clocks: list[Any] = []  # Offsets


def _blamed(folder: TrialFolder) -> str:
    """Why another worker failed, if one did: it writes that down before it goes, perhaps just now."""
    until_s = time.monotonic() + CONFESSION_S
    while not (words := blamed(folder)) and time.monotonic() < until_s:
        time.sleep(0.05)
    return words


def too_large(job: Job | None) -> str:
    """What to do about memory that was not enough: the batch that fits, tried out."""
    batch_size = job.setting.knobs.get("batch_size") if job is not None else None
    if job is None or not isinstance(batch_size, int) or batch_size < 2:
        return "out of memory"
    said = f"out of memory at batch_size = {batch_size}"
    try:
        fits = fitting(job) if job.setting.knobs.get("task") != "inference" else None
    except Stopped:
        fits = None  # whoever asked to stop is not made to wait for advice
    if fits is None:
        return f"{said}: try batch_size = {batch_size // 2}"
    if not fits:
        return f"{said}, and batch_size = 1 does not fit either: take a smaller network, or another precision"
    return f"{said}: batch_size = {fits} fits"


def out_of_room(error: Exception) -> str:
    """A write that fails in the middle of a file does not say of itself which disk was full."""
    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return ""
    where = f" (writing {error.filename})" if error.filename else ""
    return f"the disk or the quota is full{where}: free some space, or give another folder with --out"


def mute(step: dict[str, Any]) -> None:
    """What the first worker says, the others need not repeat."""
    del step


def _write_own(folder: TrialFolder, ending: Ending) -> None:
    """What this worker says of itself, before the first one sums up."""
    ranks = ending.ranks
    device = ending.job.setting.device if ending.job is not None else ""
    record = RankRecord(
        rank=ranks.rank if ranks is not None else rank_here(),
        ranks=ranks.count if ranks is not None else int(os.environ.get("WORLD_SIZE") or 1),
        local_rank=ranks.local_rank if ranks is not None else int(os.environ.get("LOCAL_RANK") or 0),
        host=socket.gethostname(),
        pid=os.getpid(),
        device=str(device),
        state=ending.state,
        reason=ending.reason,
        repeats=tuple(ending.repeats),
        clocks=tuple(msgspec.structs.asdict(each) for each in ending.clocks),
    )
    write_rank(folder, record)


def write(folder: TrialFolder, ending: Ending) -> None:
    if int(os.environ.get("WORLD_SIZE") or 1) > 1:
        _write_own(folder, ending)
        if rank_here():
            return
        if ending.state != "done" and (words := _blamed(folder)):
            ending.state, ending.reason, ending.exit_code = "failed", words, 1
    if ending.total is not None:
        result = result_of(
            ending.total,
            state=ending.state,
            valid=ending.state == "done" and not ending.reason,
            reason=ending.reason,
            exit_code=ending.exit_code,
            restarts=sum(repeat.restarts for repeat in ending.repeats),
            lost=ending.lost,
            repeats=tuple(ending.repeats),
        )
        store.write_json(folder.result, result)
    if ending.state == "done":
        folder.done.touch()
        if ending.kept is not None:
            ending.kept.discard()
        return
    sys.stderr.write(f"trial {ending.state}: {ending.reason}\n")
    left = {"schema": SCHEMA, "state": ending.state, "reason": ending.reason, "exit_code": ending.exit_code}
    store.write_json(folder.failed, left)
