# SPDX-License-Identifier: Apache-2.0
"""Do the four CANDLE workloads learn on their stand-ins as published on the real files? At full width.

    python benchmarks/candle_accuracy.py [--runs nt3,p1b1] [--scale 1] [--data DIR] [--limit 330]
                                         [--epochs 2] [-o FILE.json]

Makes the files (`--data` keeps them, or finds them), reads them with `ours`, trains through the real loop
with the paper's recipe, and prints each figure beside its target and the band around it. The targets are
those of runs on the real files: the benchmarks' own logs and the study of 2019. What cannot begin before
`--limit` seconds have passed is left out, and said to be. It wants a GPU; without one take `--scale 0.02`:
then the table shows that it works, and its figures are not those of the full width.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

LAST = 0  # of the epochs


@dataclass(frozen=True)
class Target:
    """`low` to `high` is the band; `published` is what the real files gave, None where nobody says."""

    epoch: int
    figure: str
    published: float | None
    low: float
    high: float


@dataclass(frozen=True)
class Run:
    name: str
    workload: str
    seed: int
    knobs: dict[str, Any]
    parameters: dict[str, Any] = field(default_factory=dict)
    targets: tuple[Target, ...] = ()


# One worker at the learning rate of N; in the study N workers average their gradients.
NT3_SLOW = (
    Target(1, "loss", 0.6910, 0.684, 0.698),
    Target(1, "accuracy", 0.589, 0.45, 0.65),
    Target(1, "val_loss", 0.6883, 0.680, 0.696),
    Target(2, "loss", 0.6871, 0.677, 0.696),
    Target(2, "accuracy", 0.554, 0.48, 0.68),
    Target(8, "accuracy", 0.83, 0.75, 0.91),
)
NT3_FAST = (Target(8, "accuracy", 0.993, 0.985, 1.0),)
NT3_TOO_FAST = (Target(8, "accuracy", 0.64, 0.45, 0.75),)
P1B1 = (
    Target(LAST, "loss", 0.0382, 0.035, 0.049),
    Target(LAST, "val_loss", 0.0466, 0.043, 0.050),
    Target(LAST, "val_corr", 0.742, 0.72, 0.77),
    Target(LAST, "val_xent", 0.481, 0.44, 0.51),
)
P1B2_ACCURACY = (0.164, 0.261, 0.348, 0.437, 0.504, 0.583, 0.682)
P1B2 = (
    Target(1, "loss", 2.316, 2.216, 2.416),
    *(
        Target(epoch, "accuracy", value, value - 0.09, value + 0.09)
        for epoch, value in enumerate(P1B2_ACCURACY, start=1)
    ),
    Target(LAST, "accuracy", 0.933, 0.9, 1.0),
    Target(LAST, "val_accuracy", 0.0, 0.0, 0.0),
    Target(LAST, "val_loss", 16.37, 14.0, 16.6),
    Target(LAST, "test_accuracy", 0.475, 0.445, 0.505),
)
P1B3_NARROW = (Target(1, "val_accuracy", 0.6579, 0.60, 0.68),)
P1B3_WIDE = (
    Target(1, "loss", 0.2913, 0.2, 0.4),
    Target(1, "val_accuracy", 0.7196, 0.60, 0.76),
)

NT3_KNOBS = {"epochs": 8, "batch_size": 20}
RUNS = (
    # Many: one seed's test accuracy moves by a tenth, so a mean of few says nothing.
    *(Run("p1b2", "p1b2", seed, {"epochs": 20, "batch_size": 60}, targets=P1B2) for seed in range(1, 17)),
    Run("nt3 lr .001", "nt3", 1, {**NT3_KNOBS, "learning_rate": 0.001}, targets=NT3_SLOW),
    *(
        Run("nt3 lr .024 tf32", "nt3", seed, {**NT3_KNOBS, "learning_rate": 0.024, "precision": "tf32"},
            targets=NT3_FAST)
        for seed in (1, 2)
    ),
    *(Run("p1b1", "p1b1", seed, {"epochs": 100, "batch_size": 100}, targets=P1B1) for seed in (1, 2)),
    *(
        Run("p1b3 500+500", "p1b3", seed, {"epochs": 1, "batch_size": 100}, {"feature_subsample": 500},
            targets=P1B3_NARROW)
        for seed in (1, 2)
    ),
    Run("nt3 lr .001 tf32", "nt3", 2, {**NT3_KNOBS, "learning_rate": 0.001, "precision": "tf32"},
        targets=NT3_SLOW),
    Run("nt3 lr .096 tf32", "nt3", 1, {**NT3_KNOBS, "learning_rate": 0.096, "precision": "tf32"},
        targets=NT3_TOO_FAST),
    Run("p1b3 29,532 wide", "p1b3", 1, {"epochs": 1, "batch_size": 100}, targets=P1B3_WIDE),
    # Which seeds keep both units of the code alive is decided in the first epoch: docs/candle.md.
    *(
        Run("p1b1 tf32", "p1b1", seed, {"epochs": 100, "batch_size": 100, "precision": "tf32"}, targets=P1B1)
        for seed in (3, 4, 5, 6, 7, 8)
    ),
)  # fmt: skip


# ---- the files, each workload's made by a process of its own -------------------------------------
def generate(workload: str, folder: Path, scale: float) -> None:
    import importlib

    from joulelab.data import GENERATORS

    module, _, name = GENERATORS[workload].partition(":")
    getattr(importlib.import_module(module), name)(folder, scale=scale)


@contextlib.contextmanager
def generators(
    workloads: list[str], folder: Path, scale: float
) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    started = {
        name: subprocess.Popen([sys.executable, __file__, "--generate", name, str(folder / name), str(scale)])
        for name in workloads
    }
    try:
        yield started
    finally:
        for process in started.values():
            process.kill()
            process.wait()


# ---- one run -------------------------------------------------------------------------------------
def train(run: Run, folder: Path, scale: float) -> dict[str, Any]:
    """The figures of every epoch, and what the run cost."""
    from contextlib import ExitStack

    import torch

    from joulelab.knobs import KNOBS
    from joulelab.meter.meter import Meter
    from joulelab.records import plugin
    from joulelab.train.job import Job
    from joulelab.train.loop import run_repeat
    from joulelab.train.precision import PRECISIONS
    from joulelab.workloads import RECIPES, WORKLOADS
    from joulelab.workloads.workload import Setting

    recipe = RECIPES[run.workload]
    knobs = {**recipe.knobs, **run.knobs}
    if not torch.cuda.is_available() and knobs["precision"] == "tf32":
        knobs["precision"] = "fp32"
    parameters = {p.name: p.default for p in recipe.parameters if p.default is not None}
    parameters |= {"scale": scale, "data": str(folder), **run.parameters}
    epochs: list[dict[str, Any]] = []
    with ExitStack() as stack:
        stack.enter_context(plugin.load(KNOBS, "precision", what="knob")().applied(knobs["precision"]))
        setting = Setting(
            parameters=parameters,
            knobs=knobs,
            data=folder,
            device=torch.device("cuda" if torch.cuda.is_available() else "cpu"),
            dtype=PRECISIONS[knobs["precision"]].dtype,
        )
        job = Job(
            workload=plugin.load(WORKLOADS, run.workload, what="workload"),
            setting=setting,
            epochs=int(knobs["epochs"]),
            precision=str(knobs["precision"]),
            seed=run.seed,
            index=1,
            of=1,
            warmup=False,
        )
        meter = stack.enter_context(Meter())
        repeat = run_repeat(job, meter=meter, on_epoch=epochs.append, on_progress=lambda _: None)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return {
        "run": asdict(run),
        "epochs": epochs,
        "valid": repeat.valid,
        "reason": repeat.reason,
        "phases": {
            name: {"time_s": m.time_s, "energy_j": m.energy_j, "source": m.source}
            for name, m in repeat.phases.items()
        },
    }


# ---- the table -----------------------------------------------------------------------------------
def compared(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for target in row["run"]["targets"]:
        number = target["epoch"] or len(row["epochs"])
        if number > len(row["epochs"]):
            continue
        found = row["epochs"][number - 1].get(target["figure"])
        inside = found is not None and target["low"] <= found <= target["high"]
        yield {**target, "epoch": number, "found": found, "inside": inside}


def lines(row: dict[str, Any]) -> Iterator[str]:
    run, phases = row["run"], row["phases"]
    cost = ", ".join(
        f"{name} {m['time_s']:.1f} s" + (f" {m['energy_j']:.0f} J" if m["energy_j"] is not None else "")
        for name, m in phases.items()
    )
    yield f"\n{run['name']}, seed {run['seed']}, {len(row['epochs'])} epochs: {cost}"
    if not row["valid"]:
        yield f"  INVALID: {row['reason']}"
    shown = [e for e in row["epochs"] if e["epoch"] <= 8 or e["epoch"] % 20 == 0 or e is row["epochs"][-1]]
    names = [n for n in shown[0] if n not in ("repeat", "warmup", "epoch", "skipped_steps", "time_s")]
    for name in names:
        values = " ".join(f"{e[name]:.4f}" if name in e else "-" for e in shown)
        yield f"  {name:13} by epoch: {values}"
    for c in compared(row):
        published = "-" if c["published"] is None else f"{c['published']:.4f}"
        found = "absent" if c["found"] is None else f"{c['found']:.4f}"
        mark = "inside" if c["inside"] else "OUTSIDE"
        yield (
            f"  epoch {c['epoch']:3} {c['figure']:13} {found:>8}  published {published:>8}  "
            f"band {c['low']:.4f} to {c['high']:.4f}  {mark}"
        )


def means(found: list[dict[str, Any]]) -> Iterator[str]:
    """A published figure is one draw; here are means over seeds, of runs that differ in the seed alone."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in found:
        groups.setdefault(row["run"]["name"], []).append(row)
    for name, rows in groups.items():
        if len(rows) < 2:
            continue
        yield f"\n{name}: mean of {len(rows)} seeds (smallest to largest)"
        for column in zip(*(list(compared(row)) for row in rows), strict=True):
            values = [c["found"] for c in column if c["found"] is not None]
            mean, one = statistics.fmean(values), column[0]
            mark = "inside" if one["low"] <= mean <= one["high"] else "OUTSIDE"
            yield (
                f"  epoch {one['epoch']:3} {one['figure']:13} {mean:8.4f} "
                f"({min(values):.4f} to {max(values):.4f}) band {one['low']:.4f} to {one['high']:.4f}  {mark}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", default="nt3,p1b1,p1b2,p1b3", help="workloads or names of runs, by comma")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--data", type=Path, help="folder that keeps the files; by default a temporary one")
    parser.add_argument("--limit", type=float, default=330.0, help="seconds after which no run begins")
    parser.add_argument("--epochs", type=int, default=0, help="at most so many, to try the script")
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--generate", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.generate:
        name, folder, scale = given.generate
        generate(name, Path(folder), float(scale))
        return
    begun_s = time.monotonic()
    chosen = given.runs.split(",")
    found: list[dict[str, Any]] = []
    left_out: list[str] = []
    ready_s: dict[str, float] = {}
    with contextlib.ExitStack() as stack:
        data = given.data or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        wanted = {run.workload for run in RUNS if {run.workload, run.name} & set(chosen)}
        making = stack.enter_context(generators(sorted(wanted), data, given.scale))
        import torch

        torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # loads torch's compiler, once
        for run in RUNS:
            if not {run.workload, run.name} & set(chosen):
                continue
            if time.monotonic() - begun_s > given.limit:
                left_out.append(f"{run.name}, seed {run.seed}")
                continue
            if making[run.workload].wait() != 0:
                raise SystemExit(f"the files of {run.workload} could not be made")
            ready_s.setdefault(run.workload, round(time.monotonic() - begun_s, 1))
            if given.epochs:
                run.knobs["epochs"] = min(given.epochs, run.knobs["epochs"])
            found.append(train(run, data / run.workload, given.scale))
            print("\n".join(lines(found[-1])), flush=True)
    print("\n".join(means(found)))
    outside = sum(not c["inside"] for row in found for c in compared(row))
    total = sum(1 for row in found for _ in compared(row))
    print(f"\n{total - outside} of {total} figures inside their bands")
    print("files there, seconds after the start: " + ", ".join(f"{k} {v:g}" for k, v in ready_s.items()))
    if left_out:
        print("left out for want of time: " + "; ".join(left_out))
    if given.out:
        about = {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),  # noqa: TID251  a date
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor(),
            "torch": torch.__version__,
            "scale": given.scale,
            "time_s": time.monotonic() - begun_s,
            "files_ready_s": ready_s,
            "left_out": left_out,
            "runs": [{**row, "compared": list(compared(row))} for row in found],
        }
        given.out.write_text(json.dumps(about, indent=1) + "\n")
        print(f"written: {given.out}")


if __name__ == "__main__":
    main()
