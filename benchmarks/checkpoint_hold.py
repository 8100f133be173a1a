# SPDX-License-Identifier: Apache-2.0
"""How long a training stands still for a checkpoint, and what its steps lose while one is written.

    python benchmarks/checkpoint_hold.py [--checkpoints 20] [--width 5000] [--optimizer sgd] [-o FILE.json]

A matrix of width x width in fp32, 100 MB at 5000, trained by the loop of the package: without checkpoints,
and with one every 10 steps, or less often where a write takes longer, until there are as many as were asked
for; on the GPU if there is one. Held up is the time in which the training thread gathers and copies. A step
goes from one batch to the next, the device awaited at both ends, and is counted by what went on beside it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import torch

from joulelab.meter.meter import Meter
from joulelab.records.layout import TrialFolder
from joulelab.train import keeper
from joulelab.train.checkpoint import opened
from joulelab.train.job import Job
from joulelab.train.loop import run_repeat
from joulelab.train.stopping import Stopping
from joulelab.workloads.workload import Setting, Step, Workload

ROWS, WARM = 64, 5
MOST = 100  # times the steps that were planned


class Matrix(Workload):
    holds_s: ClassVar[list[float]] = []  # of the run under way
    wanted: ClassVar[int] = 0

    def load(self) -> None:
        self.marks_ns: list[int] = []
        Matrix.last = self
        self.x = torch.randn(ROWS, int(self.setting.knobs["width"]), device=self.setting.device)

    def model(self) -> torch.nn.Module:
        width = int(self.setting.knobs["width"])
        return torch.nn.Linear(width, width, bias=False, device=self.setting.device)

    def optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        if self.setting.knobs["optimizer"] == "adam":
            return torch.optim.Adam(model.parameters(), lr=1e-4, foreach=True)
        return torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)

    def batches(self, epoch: int, generator: torch.Generator) -> Iterator[Any]:
        # While one is written no other begins: with small steps it takes more of them to as many checkpoints.
        steps, done = int(self.setting.knobs["steps"]), 0
        while done < steps or (len(Matrix.holds_s) < Matrix.wanted and done < MOST * steps):
            yield self.x
            done += 1

    def place(self, batch: Any) -> Any:
        if batch.is_cuda:
            torch.cuda.synchronize()
        self.marks_ns.append(time.monotonic_ns())
        return batch

    def loss(self, model: torch.nn.Module, batch: Any) -> Step:
        return Step((model(batch) - batch).square().mean(), ROWS)


@dataclass(frozen=True)
class Ran:
    steps_s: list[float]
    writes: list[dict[str, Any]]  # when each began and ended
    holds_s: list[float]
    size: int  # bytes of a checkpoint


def run(knobs: dict[str, Any], folder: Path) -> Ran:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    setting = Setting(parameters={}, knobs={"batch_size": ROWS, **knobs}, data=folder, device=device)
    trial = TrialFolder(folder)
    heard: list[Any] = []
    kept = opened(trial, spec="benchmark", knobs=knobs, stopping=Stopping(), say=print, tell=heard.append)
    writes: list[dict[str, Any]] = []
    holds_s: list[float] = []
    Matrix.holds_s, Matrix.wanted = holds_s, int(knobs["wanted"])
    if kept is not None:
        start = kept.writer.start

        def timed(work: Any) -> None:
            def both() -> None:
                began_ns = time.monotonic_ns()
                work()
                writes.append({"began_ns": began_ns, "ended_ns": time.monotonic_ns()})

            start(both)

        kept.writer.start = timed  # type: ignore[method-assign]
    save = keeper.Saving.save

    def held(*what: Any) -> None:
        began_ns = time.monotonic_ns()
        save(*what)
        holds_s.append(1e-9 * (time.monotonic_ns() - began_ns))

    keeper.Saving.save = held  # type: ignore[method-assign]
    job = Job(
        workload=Matrix,
        setting=setting,
        epochs=1,
        precision="fp32",
        seed=1,
        index=1,
        of=1,
        warmup=False,
        checkpoints=kept,
    )
    with Meter(devices=("estimate",)) as meter:
        tell = kept.epoch if kept is not None else heard.append
        run_repeat(job, meter=meter, on_epoch=tell, on_progress=heard.append)
        size = max((path.stat().st_size for path in trial.checkpoint.rglob("*.pt")), default=0)
        if kept is not None:
            kept.close()
    keeper.Saving.save = save  # type: ignore[method-assign]
    marks = Matrix.last.marks_ns
    return Ran([(b - a) * 1e-9 for a, b in pairwise(marks)], writes, holds_s, size)


def spread(values: list[float]) -> dict[str, Any]:
    """In milliseconds: the median, the least and the most, and the quarter points."""
    ordered = sorted(1e3 * value for value in values)
    quarters = statistics.quantiles(ordered, n=4) if len(ordered) > 1 else ordered * 3
    return {
        "n": len(ordered),
        "median_ms": round(statistics.median(ordered), 3),
        "quarters_ms": [round(quarters[0], 3), round(quarters[2], 3)],
        "range_ms": [round(ordered[0], 3), round(ordered[-1], 3)],
    }


def measured(*, checkpoints: int, width: int, optimizer: str, every: int) -> dict[str, Any]:
    knobs = {"width": width, "optimizer": optimizer, "steps": every * checkpoints + WARM, "wanted": 0}
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        plain = run({**knobs, "checkpoint_steps": 0}, Path(first)).steps_s
        ran = run({**knobs, "checkpoint_steps": every, "wanted": checkpoints}, Path(second))
        marks = Matrix.last.marks_ns
    beside, free = [], []
    for number, time_s in enumerate(ran.steps_s[WARM:], start=WARM):
        begins, ends = marks[number], marks[number + 1]
        if not any(write["began_ns"] < ends and begins < write["ended_ns"] for write in ran.writes):
            free.append(time_s)
        elif not any(begins <= write["began_ns"] <= ends for write in ran.writes):
            beside.append(time_s)  # and without a copy in it
    return {
        "torch": str(torch.__version__),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "model_mb": round(4e-6 * width**2, 1),
        "checkpoint_mb": round(1e-6 * ran.size, 1),
        "optimizer": optimizer,
        "step_without_checkpoints": spread(plain[WARM:]),
        "step_free": spread(free) if free else None,
        "step_while_one_is_written": spread(beside) if beside else None,
        # The first copy takes its memory from the system; all others find it there.
        "held_up_first_ms": round(1e3 * ran.holds_s[0], 3),
        "held_up": spread(ran.holds_s[1:]),
        "written_in": spread([1e-9 * (write["ended_ns"] - write["began_ns"]) for write in ran.writes]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoints", type=int, default=20)
    parser.add_argument("--width", type=int, default=5000)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd")
    parser.add_argument("-o", "--out", type=Path)
    asked = parser.parse_args()
    found = measured(
        checkpoints=asked.checkpoints, width=asked.width, optimizer=asked.optimizer, every=asked.every
    )
    shown = json.dumps(found, indent=1)
    print(shown)
    if asked.out is not None:
        asked.out.write_text(shown + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
