# SPDX-License-Identifier: Apache-2.0
"""The process of one trial: `python -m joulelab.train.worker FOLDER`. The folder says what is to be done."""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec
import torch

from joulelab.errors import InputError, JouleLabError, TrialError
from joulelab.knobs import KNOBS
from joulelab.knobs.knob import Site, to_log
from joulelab.knobs.lease import lease_folder
from joulelab.knobs.put_back import repair
from joulelab.knobs.sharing import shared
from joulelab.meter import owner
from joulelab.meter.meter import Meter
from joulelab.records import plugin, provenance, store
from joulelab.records.layout import SCHEMA, StudyFolder, TrialFolder
from joulelab.records.measurement import Measurement
from joulelab.records.ranks import RankRecord, blamed
from joulelab.records.ranks import write as write_rank
from joulelab.records.trial import Repeat, TrialSpec, result_of
from joulelab.train.distributed import agree, device_of, gone, join, rank_here
from joulelab.train.fitting import fitting, ran_out
from joulelab.train.inference import run_inference
from joulelab.train.job import Job, Tell
from joulelab.train.loop import run_repeat
from joulelab.train.nodes import of_all_machines, together
from joulelab.train.precision import PRECISIONS
from joulelab.train.ranks import Ranks
from joulelab.train.stopping import Stopped, stoppable
from joulelab.train.trace import Timeline
from joulelab.workloads import RECIPES, WORKLOADS
from joulelab.workloads.workload import Setting, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from joulelab.knobs.knob import Knob
    from joulelab.records.parameter import Scalar

IDLE_S = 0.5
CONFESSION_S = 2.0  # how long the first worker waits for one that failed to say why


class _Ending(msgspec.Struct):
    """How the trial ended, filled in as it goes."""

    state: str = "done"
    reason: str = ""
    exit_code: int = 0
    total: Measurement | None = None
    repeats: list[Repeat] = []
    job: Any = None  # the Job that ran last
    ranks: Any = None  # the Ranks, once they have met
    clocks: list[Any] = []  # Offsets


def run_trial(folder: TrialFolder, *, on_progress: Tell, open_meter: Callable[..., Meter] = Meter) -> int:
    """Run the trial of `folder` in this process. What came of it stands in the folder."""
    ending = _Ending()
    out_of_memory = False
    if rank_here():
        on_progress = _mute
    with stoppable() as stopping:
        try:
            spec = store.read_json(folder.spec, TrialSpec)
            _run(folder, spec, ending, on_progress=on_progress, open_meter=open_meter)
        except Stopped as stopped:
            ending.state, ending.reason, ending.exit_code = "interrupted", str(stopped), stopped.exit_code
        except JouleLabError as error:
            ending.state, ending.reason, ending.exit_code = "failed", str(error), 1
        except Exception as error:  # noqa: BLE001  whatever a workload raises ends its trial, in words, and no other
            traceback.print_exc()
            words = _out_of_room(error) or f"{type(error).__name__}: {error}"
            state = "failed"
            if gone(error):
                state, words = "interrupted", "another worker has gone"
            ending.state, ending.reason, ending.exit_code = state, words, 1
            out_of_memory = ran_out(error)
        if out_of_memory:
            # Not inside `except`: there the error still holds what has to be given back.
            ending.reason = _too_large(ending.job)
        stopping.over = True  # what was measured is written down first
        _write(folder, ending)
    return ending.exit_code


def _run(
    folder: TrialFolder,
    spec: TrialSpec,
    ending: _Ending,
    *,
    on_progress: Tell,
    open_meter: Callable[..., Meter],
) -> None:
    workload: type[Workload] = plugin.load(WORKLOADS, spec.workload, what="workload")
    recipe = RECIPES.get(spec.workload) or workload.recipe
    asked = {**recipe.listens(), **spec.knobs}
    ranks = ending.ranks = join(asked)
    software = ", ".join(f"{name} {number}" for name, number in provenance.versions().items())
    agree(ranks, f"{software}; trial {spec.identity()}", what="software or trial")
    knobs = asked | shared(asked)
    parameters = {
        **{p.name: p.default for p in recipe.parameters if p.default is not None},
        **spec.parameters,
    }
    with ExitStack() as put_back:
        # ---- what may be refused is refused before anything is measured ------------------------------------
        if ranks.local_rank == 0:
            repair(lease_folder(), say=to_log)  # a cap that a killed trial left would be in these figures
        turned = put_back.enter_context(ExitStack())
        site = Site(
            devices=spec.devices,
            trial=str(folder.path.absolute()),
            say=lambda words: _say(words, on_progress=on_progress),
        )
        # In one order for all workloads: two trials that cap the same devices must not wait for each other.
        settings = [
            row for name in sorted(knobs) for row in _apply(name, knobs[name], turned, site=site, ranks=ranks)
        ]
        precision = str(knobs.get("precision", "fp32"))
        setting = Setting(
            parameters=parameters,
            knobs=knobs,
            data=_data(folder),
            device=device_of(ranks),
            dtype=PRECISIONS[precision].dtype,
            rank=ranks.rank,
            ranks=ranks.count,
            add=ranks.add,
            say=site.say,
        )
        _prepare(workload, setting, ranks)
        # The first optimizer of a process loads torch's compiler, used or not: seconds that belong to no
        # repeat.
        torch.optim.SGD([torch.zeros(1, requires_grad=True)])

        # ---- the machine at rest, then the repeats ---------------------------------------------------------
        out = _record_of(folder, ranks)
        meter = put_back.enter_context(open_meter(out=out, devices=spec.devices))
        idle = meter.idle(IDLE_S)
        if ranks.rank == 0:
            provenance.write_host(
                folder,
                devices=meter.device_list(),
                problems=[f"{p['vendor']}: {p['what']}; {p['cure']}" for p in meter.problems()],
                idle=idle,
                torch_device=_device_name(setting.device),
                torch_threads=torch.get_num_threads(),
                settings=settings,
            )
        on_epoch: Tell = _mute
        if ranks.rank == 0:
            metrics = store.Lines(folder.metrics, kind="metrics")
            put_back.callback(metrics.close)
            on_epoch = metrics.append
        _note_events(folder, ranks, setting=setting, put_back=put_back)
        ending.clocks.append(ranks.clock())
        run = run_inference if knobs.get("task") == "inference" else run_repeat
        whole = meter.window("trial")
        try:
            with whole:
                for job in jobs(spec, workload=workload, setting=setting, precision=precision, ranks=ranks):
                    ending.job = job
                    repeat = run(job, meter=meter, on_epoch=on_epoch, on_progress=on_progress)
                    repeat = together(repeat, ranks)
                    ending.repeats.append(repeat)
                    if not repeat.valid:
                        ending.reason = f"repeat {repeat.index}: {repeat.reason}"
                        break  # the trial enters no comparison any more
                ending.clocks.append(ranks.clock())
        finally:
            # What was changed on the machine goes back before anything that takes time: whoever stops a job
            # kills it soon after asking.
            try:
                turned.close()
            finally:
                ending.total = whole.measurement
        ending.total = of_all_machines(ending.total, ranks)


def _prepare(workload: type[Workload], setting: Setting, ranks: Ranks) -> None:
    """What is made once is made by the first worker of a machine; the others find it."""
    made = workload(setting)
    if ranks.local_rank == 0:
        made.prepare()
    ranks.any(False)
    if ranks.local_rank:
        made.prepare()
    if ranks.count > 1:
        agree(ranks, made.sources(), what="their data")


def jobs(
    spec: TrialSpec,
    *,
    workload: type[Workload],
    setting: Setting,
    precision: str,
    ranks: Ranks | None = None,
) -> list[Job]:
    """The repeats in their order. The seeds of the measured ones do not depend on how many warm up."""
    seeds = [spec.seed + spec.repeats + k for k in range(spec.warmup)] + [
        spec.seed + k for k in range(spec.repeats)
    ]
    return [
        Job(
            workload=workload,
            setting=setting,
            epochs=int(setting.knobs["epochs"]),
            precision=precision,
            seed=seed,
            index=index,
            of=len(seeds),
            warmup=index <= spec.warmup,
            ranks=ranks or Ranks(),
        )
        for index, seed in enumerate(seeds, start=1)
    ]


def _apply(
    name: str, value: Scalar, put_back: ExitStack, *, site: Site, ranks: Ranks
) -> list[dict[str, Any]]:
    """Turn one knob; what it found and set, for the record."""
    knob: Knob = plugin.load(KNOBS, name, what="knob")()
    if knob.of_machine and ranks.local_rank:
        return []
    knob.site = site
    value = knob.check(value)
    refused = knob.available(value)
    if refused:
        raise TrialError(
            refused, cure="leave this setting out of the study, or run it where the device has it"
        )
    put_back.enter_context(knob.applied(value))
    return knob.told()


def _say(words: str, *, on_progress: Tell) -> None:
    to_log(words)
    on_progress({"phase": words})


def _data(folder: TrialFolder) -> Path:
    """Where stand-ins live: the trials of a study share theirs."""
    parent = folder.path.absolute().parent
    study = StudyFolder(parent.parent)
    return study.data if study.trials == parent else folder.path / "data"


def _blamed(folder: TrialFolder) -> str:
    """Why another worker failed, if one did: it writes that down before it goes, perhaps just now."""
    until_s = time.monotonic() + CONFESSION_S
    while not (words := blamed(folder)) and time.monotonic() < until_s:
        time.sleep(0.05)
    return words


def _note_events(folder: TrialFolder, ranks: Ranks, *, setting: Setting, put_back: ExitStack) -> None:
    """Where several work together, each notes when it did what."""
    every = int(setting.knobs.get("timeline_every", 0))
    if not every or ranks.count == 1:
        return
    store.make_folder(folder.ranks)
    events = store.Lines(folder.events_of(ranks.rank), kind="events")
    put_back.callback(events.close)
    ranks.trace = Timeline(events.append, every=every, device=setting.device)


def _record_of(folder: TrialFolder, ranks: Ranks) -> Path:
    """Where this machine's meter writes: one file must not be written by two machines."""
    if not ranks.hosts or ranks.hosts[ranks.rank] == ranks.hosts[0]:
        return folder.path
    own = folder.node(ranks.hosts[ranks.rank])
    own.mkdir(parents=True, exist_ok=True)
    return own


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _too_large(job: Job | None) -> str:
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


def _out_of_room(error: Exception) -> str:
    """A write that fails in the middle of a file does not say of itself which disk was full."""
    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return ""
    where = f" (writing {error.filename})" if error.filename else ""
    return f"the disk or the quota is full{where}: free some space, or give another folder with --out"


def _mute(step: dict[str, Any]) -> None:
    """What the first worker says, the others need not repeat."""
    del step


def _write_own(folder: TrialFolder, ending: _Ending) -> None:
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


def _write(folder: TrialFolder, ending: _Ending) -> None:
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
            repeats=tuple(ending.repeats),
        )
        store.write_json(folder.result, result)
    if ending.state == "done":
        folder.done.touch()
        return
    sys.stderr.write(f"trial {ending.state}: {ending.reason}\n")
    left = {"schema": SCHEMA, "state": ending.state, "reason": ending.reason, "exit_code": ending.exit_code}
    store.write_json(folder.failed, left)


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        raise InputError("one trial folder is wanted", cure="python -m joulelab.train.worker FOLDER")
    return run_trial(TrialFolder(Path(arguments[0])), on_progress=teller(sys.stdout))


def teller(stream: TextIO) -> Tell:
    """What writes each step of progress to `stream` as a line of JSON, as long as somebody reads it."""
    listening = True

    def tell(step: dict[str, Any]) -> None:
        nonlocal listening
        if listening:
            try:
                stream.write(msgspec.json.encode({"progress": step}).decode() + "\n")
                stream.flush()
            except OSError:
                # Whoever started this has gone. The trial is under way and its folder waits for it.
                listening = False

    return tell


if __name__ == "__main__":
    try:
        exit_code = main(sys.argv[1:])
    except JouleLabError as refused:
        sys.stderr.write(f"joulelab: {refused}\n")
        exit_code = 2
    owner.close_all()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            continue
    # Not through the interpreter's end: tearing down a framework and its driver takes long and can hang.
    os._exit(exit_code)
