# SPDX-License-Identifier: Apache-2.0
"""The process of one trial: `python -m joulelab.train.worker FOLDER`. The folder says what is to be done."""

from __future__ import annotations

import dataclasses
import errno
import os
import sys
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
from joulelab.meter import owner
from joulelab.meter.meter import Meter
from joulelab.records import plugin, provenance, store
from joulelab.records.layout import SCHEMA, StudyFolder, TrialFolder
from joulelab.records.measurement import Measurement
from joulelab.records.trial import Repeat, TrialSpec, result_of
from joulelab.train import checkpoint
from joulelab.train.fitting import fitting, ran_out
from joulelab.train.inference import run_inference
from joulelab.train.job import Job, Tell
from joulelab.train.loop import run_repeat
from joulelab.train.precision import PRECISIONS
from joulelab.train.stopping import Stopped, Stopping, stoppable
from joulelab.workloads import RECIPES, WORKLOADS
from joulelab.workloads.workload import Setting, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from joulelab.knobs.knob import Knob
    from joulelab.records.parameter import Scalar

IDLE_S = 0.5


class _Ending(msgspec.Struct):
    """How the trial ended, filled in as it goes."""

    state: str = "done"
    reason: str = ""
    exit_code: int = 0
    total: Measurement | None = None
    lost: Measurement | None = None
    repeats: list[Repeat] = []
    kept: Any = None  # the Checkpoints of the trial
    job: Any = None  # the Job that ran last


def run_trial(folder: TrialFolder, *, on_progress: Tell, open_meter: Callable[..., Meter] = Meter) -> int:
    """Run the trial of `folder` in this process. What came of it stands in the folder."""
    ending = _Ending()
    out_of_memory = False
    with stoppable() as stopping:
        try:
            spec = store.read_json(folder.spec, TrialSpec)
            _run(folder, spec, ending, stopping=stopping, on_progress=on_progress, open_meter=open_meter)
        except Stopped as stopped:
            ending.state, ending.reason, ending.exit_code = "interrupted", str(stopped), stopped.exit_code
        except JouleLabError as error:
            ending.state, ending.reason, ending.exit_code = "failed", str(error), 1
        except Exception as error:  # noqa: BLE001  whatever a workload raises ends its trial, in words, and no other
            traceback.print_exc()
            words = _out_of_room(error) or f"{type(error).__name__}: {error}"
            ending.state, ending.reason, ending.exit_code = "failed", words, 1
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
    stopping: Stopping,
    on_progress: Tell,
    open_meter: Callable[..., Meter],
) -> None:
    workload: type[Workload] = plugin.load(WORKLOADS, spec.workload, what="workload")
    recipe = RECIPES.get(spec.workload) or workload.recipe
    knobs = {**recipe.knobs, **spec.knobs}
    parameters = {
        **{p.name: p.default for p in recipe.parameters if p.default is not None},
        **spec.parameters,
    }
    with ExitStack() as put_back:
        # ---- what may be refused is refused before anything is measured ------------------------------------
        repair(lease_folder(), say=to_log)  # a cap that a killed trial left would be in these figures
        turned = put_back.enter_context(ExitStack())
        site = Site(
            devices=spec.devices,
            trial=str(folder.path.absolute()),
            say=lambda words: _say(words, on_progress=on_progress),
        )
        # In one order for all workloads: two trials that cap the same devices must not wait for each other.
        settings = [row for name in sorted(knobs) for row in _apply(name, knobs[name], turned, site=site)]
        precision = str(knobs.get("precision", "fp32"))
        setting = Setting(
            parameters=parameters,
            knobs=knobs,
            data=_data(folder),
            device=torch.device("cuda" if torch.cuda.is_available() else "cpu"),
            dtype=PRECISIONS[precision].dtype,
            say=site.say,
        )
        workload(setting).prepare()
        # The first optimizer of a process loads torch's compiler, used or not: seconds that belong to no
        # repeat.
        torch.optim.SGD([torch.zeros(1, requires_grad=True)])

        # ---- the machine at rest, then the repeats ---------------------------------------------------------
        meter = put_back.enter_context(open_meter(out=folder.path, devices=spec.devices))
        idle = meter.idle(IDLE_S)
        provenance.write_host(
            folder,
            devices=meter.device_list(),
            problems=[f"{p['vendor']}: {p['what']}; {p['cure']}" for p in meter.problems()],
            idle=idle,
            torch_device=_device_name(setting.device),
            torch_threads=torch.get_num_threads(),
            settings=settings,
        )
        metrics = store.Lines(folder.metrics, kind="metrics")
        put_back.callback(metrics.close)
        kept = checkpoint.opened(
            folder,
            spec=spec.identity(),
            knobs=knobs,
            stopping=stopping,
            say=site.say,
            tell=metrics.append,
            rank=setting.rank,
        )
        if kept is not None:
            put_back.callback(kept.close)
        run = run_inference if knobs.get("task") == "inference" else run_repeat
        whole = meter.window("trial")
        try:
            with whole:
                for job in jobs(spec, workload=workload, setting=setting, precision=precision):
                    ending.job = job
                    repeat = kept.done(job.index) if kept is not None else None
                    if repeat is None:
                        repeat = _repeat(
                            job, run, kept, meter=meter, tell=metrics.append, on_progress=on_progress
                        )
                    ending.repeats.append(repeat)
                    if not repeat.valid:
                        ending.reason = f"repeat {repeat.index}: {repeat.reason}"
                        break  # the trial enters no comparison any more
        finally:
            # What was changed on the machine goes back before anything that takes time: whoever stops a job
            # kills it soon after asking.
            try:
                turned.close()
            finally:
                ending.total = whole.measurement
                if kept is not None:
                    ending.total, ending.lost = kept.whole(ending.total, ending.repeats)
                    ending.kept = kept


def _repeat(
    job: Job,
    run: Callable[..., Repeat],
    kept: checkpoint.Checkpoints | None,
    *,
    meter: Meter,
    tell: Tell,
    on_progress: Tell,
) -> Repeat:
    """One repeat; with checkpoints, one that goes on where an earlier attempt left it."""
    if kept is None:
        return run(job, meter=meter, on_epoch=tell, on_progress=on_progress)
    kept.begin(job.index)
    job = dataclasses.replace(job, checkpoints=kept)
    return kept.end(run(job, meter=meter, on_epoch=kept.epoch, on_progress=on_progress))


def jobs(spec: TrialSpec, *, workload: type[Workload], setting: Setting, precision: str) -> list[Job]:
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
        )
        for index, seed in enumerate(seeds, start=1)
    ]


def _apply(name: str, value: Scalar, put_back: ExitStack, *, site: Site) -> list[dict[str, Any]]:
    """Turn one knob; what it found and set, for the record."""
    knob: Knob = plugin.load(KNOBS, name, what="knob")()
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


def _write(folder: TrialFolder, ending: _Ending) -> None:
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
