# SPDX-License-Identifier: Apache-2.0
"""The process of one trial: `python -m joulelab.train.worker FOLDER`. The folder says what is to be done."""

from __future__ import annotations

import dataclasses
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
from joulelab.knobs.sharing import shared
from joulelab.meter import owner
from joulelab.meter.meter import Meter
from joulelab.records import plugin, provenance, store
from joulelab.records.layout import StudyFolder, TrialFolder
from joulelab.records.trial import Repeat, TrialSpec
from joulelab.train import checkpoint
from joulelab.train.attempt_files import meter_folder, note_epochs, note_events, note_host
from joulelab.train.distributed import agree, device_of, gone, join, rank_here
from joulelab.train.ending import Ending, mute, out_of_room, too_large, write
from joulelab.train.fitting import ran_out
from joulelab.train.inference import run_inference
from joulelab.train.job import Job, Tell
from joulelab.train.loop import run_repeat
from joulelab.train.nodes import of_all_machines, together
from joulelab.train.precision import PRECISIONS
from joulelab.train.ranks import Ranks
from joulelab.train.stopping import Stopped, Stopping, stoppable
from joulelab.workloads import RECIPES, WORKLOADS
from joulelab.workloads.workload import Setting, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from joulelab.knobs.knob import Knob
    from joulelab.records.parameter import Scalar
    from joulelab.workloads.recipe import Recipe

IDLE_S = 0.5
CONFESSION_S = 2.0  # how long the first worker waits for one that failed to say why


def run_trial(folder: TrialFolder, *, on_progress: Tell, open_meter: Callable[..., Meter] = Meter) -> int:
    """Run the trial of `folder` in this process. What came of it stands in the folder."""
    ending = Ending()
    out_of_memory = False
    if rank_here():
        on_progress = mute
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
            words = out_of_room(error) or f"{type(error).__name__}: {error}"
            told = ("interrupted", "another worker has gone") if gone(error) else ("failed", words)
            ending.state, ending.reason, ending.exit_code = *told, 1
            out_of_memory = ran_out(error)
        if out_of_memory:
            # Not inside `except`: there the error still holds what has to be given back.
            ending.reason = too_large(ending.job)
        stopping.over = True  # what was measured is written down first
        write(folder, ending)
    return ending.exit_code


def _run(
    folder: TrialFolder,
    spec: TrialSpec,
    ending: Ending,
    *,
    stopping: Stopping,
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
        setting = _setting(folder, spec, recipe, knobs, ranks=ranks, say=site.say)
        _prepare(workload, setting, ranks)
        # The first optimizer of a process loads torch's compiler, used or not: seconds that belong to no
        # repeat.
        torch.optim.SGD([torch.zeros(1, requires_grad=True)])

        # ---- the machine at rest, then the repeats ---------------------------------------------------------
        out = meter_folder(folder, ranks)
        meter = put_back.enter_context(open_meter(out=out, devices=spec.devices))
        idle = meter.idle(IDLE_S)
        note_host(folder, ranks, meter=meter, idle=idle, device=setting.device, settings=settings)
        on_epoch = note_epochs(folder, ranks, put_back=put_back)
        note_events(folder, ranks, setting=setting, put_back=put_back)
        ending.clocks.append(ranks.clock())
        kept = checkpoint.opened(
            folder,
            spec=spec.identity(),
            knobs=knobs,
            stopping=stopping,
            say=site.say,
            tell=on_epoch,
            rank=setting.rank,
        )
        if kept is not None:
            put_back.callback(kept.close)
        run = run_inference if knobs.get("task") == "inference" else run_repeat
        whole = meter.window("trial")
        try:
            with whole:
                for job in jobs(spec, workload=workload, setting=setting, ranks=ranks):
                    ending.job = job
                    repeat = kept.done(job.index) if kept is not None else None
                    if repeat is None:
                        repeat = _repeat(job, run, kept, meter=meter, tell=on_epoch, on_progress=on_progress)
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
                if kept is not None:
                    ending.total, ending.lost = kept.whole(ending.total, ending.repeats)
                    ending.kept = kept
        ending.total = of_all_machines(ending.total, ranks)


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
        return together(run(job, meter=meter, on_epoch=tell, on_progress=on_progress), job.ranks)
    kept.begin(job.index)
    job = dataclasses.replace(job, checkpoints=kept)
    repeat = run(job, meter=meter, on_epoch=kept.epoch, on_progress=on_progress)
    return kept.end(together(repeat, job.ranks))


def _setting(
    folder: TrialFolder,
    spec: TrialSpec,
    recipe: Recipe,
    knobs: dict[str, Scalar],
    *,
    ranks: Ranks,
    say: Callable[[str], None],
) -> Setting:
    usual = {p.name: p.default for p in recipe.parameters if p.default is not None}
    return Setting(
        parameters={**usual, **spec.parameters},
        knobs=knobs,
        data=_data(folder),
        device=device_of(ranks),
        dtype=PRECISIONS[str(knobs.get("precision", "fp32"))].dtype,
        rank=ranks.rank,
        ranks=ranks.count,
        add=ranks.add,
        say=say,
    )


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
            precision=str(setting.knobs.get("precision", "fp32")),
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
