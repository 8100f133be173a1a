# SPDX-License-Identifier: Apache-2.0
"""The files that an attempt at a trial writes as it goes: each worker its own, or the first one alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from joulelab.records import provenance, store
from joulelab.train.ending import mute
from joulelab.train.trace import Timeline

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from joulelab.meter.meter import Meter
    from joulelab.records.layout import TrialFolder
    from joulelab.records.measurement import Measurement
    from joulelab.train.job import Tell
    from joulelab.train.ranks import Ranks
    from joulelab.workloads.workload import Setting


def note_host(
    folder: TrialFolder,
    ranks: Ranks,
    *,
    meter: Meter,
    idle: Measurement,
    device: torch.device,
    settings: list[dict[str, Any]],
) -> None:
    """The machine at rest, and what was set on it: of several workers the first one says it."""
    if ranks.rank:
        return
    provenance.write_host(
        folder,
        devices=meter.device_list(),
        problems=[f"{p['vendor']}: {p['what']}; {p['cure']}" for p in meter.problems()],
        idle=idle,
        torch_device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        torch_threads=torch.get_num_threads(),
        settings=settings,
    )


def note_epochs(folder: TrialFolder, ranks: Ranks, *, put_back: ExitStack) -> Tell:
    """What takes the line of an epoch."""
    if ranks.rank:
        return mute
    metrics = store.Lines(folder.metrics, kind="metrics")
    put_back.callback(metrics.close)
    return metrics.append


def note_events(folder: TrialFolder, ranks: Ranks, *, setting: Setting, put_back: ExitStack) -> None:
    """Where several work together, each notes when it did what."""
    every = int(setting.knobs.get("timeline_every", 0))
    if not every or ranks.count == 1:
        return
    store.make_folder(folder.ranks)
    events = store.Lines(folder.events_of(ranks.rank), kind="events")
    put_back.callback(events.close)
    ranks.trace = Timeline(events.append, every=every, device=setting.device)


def meter_folder(folder: TrialFolder, ranks: Ranks) -> Path:
    """Where this machine's meter writes: one file must not be written by two machines."""
    if not ranks.hosts or ranks.hosts[ranks.rank] == ranks.hosts[0]:
        return folder.path
    own = folder.node(ranks.hosts[ranks.rank])
    own.mkdir(parents=True, exist_ok=True)
    return own
