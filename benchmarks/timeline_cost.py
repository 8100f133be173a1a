# SPDX-License-Identifier: Apache-2.0
"""What it costs two workers to note when they were ready, and what the loop costs them beside a bare one.

    python benchmarks/timeline_cost.py [--rounds 10] [--steps 150] [--small] [-o FILE.json]

Two processes, gloo, one thread each, train one network on the same rows. Four ways take turns, `rounds`
times, another one first each time, in the same two processes:
  every 0    JouleLab's loop, no step is noted (timeline_every = 0)
  every 50   the usual: each fiftieth step, its spans and each bucket of gradients
  every 1    each step
  bare       forward, loss, backward, optimizer under DistributedDataParallel, and nothing else
Steps a second are those of the first worker in the window called train. A ratio is that of two ways in one
round; the table has the median and the ends of the rounds. `every 0 / bare` is to be 0.98 or more.
How much of the machine others used meanwhile is said below; from one that was not quiet, take nothing.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

WAYS = ("every 0", "every 50", "every 1", "bare")
RATIOS = (("every 50", "every 0"), ("every 1", "every 0"), ("every 0", "bare"), ("every 50", "bare"))
WORKERS = 2
QUIET = 0.1  # of the cores, at most, that others had meanwhile
BATCH, WIDTH, KINDS = 64, 1024, 10


# ---- a worker ------------------------------------------------------------------------------------
def child(given: argparse.Namespace) -> None:
    import torch

    torch.set_num_threads(1)
    from joulelab.meter import owner
    from joulelab.meter.meter import Meter
    from joulelab.train.distributed import join

    ranks = join({"workers": WORKERS})
    found: list[dict[str, float]] = []
    with Meter(devices=("estimate",)) as meter, tempfile.TemporaryDirectory() as folder:
        sides = ways(given.steps, ranks=ranks, meter=meter, folder=Path(folder))
        for number in range(given.rounds + 1):
            first = number % len(WAYS)
            row = {}
            for way in (*WAYS[first:], *WAYS[:first]):
                ranks.any(False)  # both begin together
                row[way] = given.steps / sides[way]()
            found.append(row)
    if ranks.rank == 0:
        print(json.dumps(found[1:]), flush=True)  # the first round warms up
    owner.close_all()
    sys.stdout.flush()
    os._exit(0)  # connections end with the process, as in the worker of a trial


def ways(steps: int, *, ranks: Any, meter: Any, folder: Path) -> dict[str, Any]:
    """Each gives the seconds that its steps took."""
    import torch
    from torch import nn
    from torch.nn import functional
    from torch.nn.parallel import DistributedDataParallel

    from joulelab.records import store
    from joulelab.train.job import Job
    from joulelab.train.loop import run_repeat
    from joulelab.train.trace import Timeline, Trace
    from joulelab.workloads import share
    from joulelab.workloads.workload import Setting, Step, Workload

    rows = steps * BATCH * WORKERS
    drawn = torch.Generator().manual_seed(0)
    all_x = torch.randn(rows, 256, generator=drawn)
    all_y = torch.randint(KINDS, (rows,), generator=drawn)

    class Net(Workload):
        metrics = ("accuracy",)

        def load(self) -> None:
            """It is there."""

        def model(self) -> nn.Module:
            middle = (nn.Linear(WIDTH, WIDTH), nn.ReLU())
            return nn.Sequential(nn.Linear(256, WIDTH), nn.ReLU(), *middle, nn.Linear(WIDTH, KINDS))

        def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
            return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

        def batches(self, epoch: int, generator: torch.Generator) -> Any:
            for mine in share.batches(rows, BATCH, generator, self.setting):
                yield all_x[mine], all_y[mine]

        def loss(self, model: nn.Module, batch: Any) -> Step:
            logits = model(batch[0])
            hits = (logits.detach().argmax(1) == batch[1]).float().mean()
            return Step(functional.cross_entropy(logits, batch[1]), BATCH, {"accuracy": hits})

        def evaluate(self, model: nn.Module) -> dict[str, float]:
            return {"val_loss": 0.0}

    knobs = {"workers": WORKERS, "batch_size": BATCH, "epochs": 1, "precision": "fp32", "learning_rate": 0.01}
    setting = Setting(parameters={}, knobs=knobs, data=folder, rank=ranks.rank, ranks=WORKERS, add=ranks.add)

    def loop(every: int) -> float:
        with ExitStack() as closing:
            ranks.trace = Trace()
            if every:
                events = store.Lines(folder / f"{ranks.rank}-{time.monotonic_ns()}.jsonl", kind="events")
                closing.callback(events.close)
                ranks.trace = Timeline(events.append, every=every, device=setting.device)
            job = Job(
                workload=Net, setting=setting, epochs=1, precision="fp32", seed=1, index=1, of=1,
                warmup=False, ranks=ranks,
            )  # fmt: skip
            repeat = run_repeat(job, meter=meter, on_epoch=lambda _: None, on_progress=lambda _: None)
        if not repeat.valid or repeat.samples != rows:
            raise SystemExit(f"the loop did not do its steps: {repeat.samples} of {rows}; {repeat.reason}")
        return float(repeat.phases["train"].time_s)

    def bare() -> float:
        torch.manual_seed(1)
        work = Net(setting)
        model = DistributedDataParallel(work.model(), gradient_as_bucket_view=True)
        optimizer = work.optimizer(model)
        model.train()
        window = meter.window("bare")
        with window:
            for x, y in work.batches(1, torch.Generator().manual_seed(1)):
                functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        return float(window.measurement.time_s)

    every = {f"every {k}": (lambda k=k: loop(k)) for k in (0, 50, 1)}
    return {**every, "bare": bare}


# ---- who starts them, and what came out ------------------------------------------------------------
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=150, help="of a way in a round")
    parser.add_argument("--small", action="store_true", help="two rounds of 60 steps, to try the script")
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.small:
        given.rounds, given.steps = 2, 60
    if given.child:
        child(given)
        return
    load, before_s, begun_s = os.getloadavg()[0], busy_s(), time.monotonic()
    words = [__file__, "--child", "--rounds", str(given.rounds), "--steps", str(given.steps)]
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={WORKERS}"]
    done = subprocess.run(
        [*start, *words],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    time_s = time.monotonic() - begun_s
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    others = max(0.0, (busy_s() - before_s - own.ru_utime - own.ru_stime) / time_s)
    rounds = json.loads(done.stdout.splitlines()[-1])
    quiet = others < QUIET
    print(table(rounds))
    print(f"load before: {load:.2f}; others had {others:.2f} of {os.cpu_count()} cores meanwhile")
    if not quiet:
        print("NOT QUIET: these figures say nothing")
    if given.out:
        about = {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),  # noqa: TID251  a date
            "processor": processor(),
            "cores": os.cpu_count(),
            "steps": given.steps,
            "load_before": load,
            "others_cores": others,
            "quiet": quiet,
            "time_s": time_s,
        }
        given.out.write_text(json.dumps({**about, "rounds": rounds}, indent=1) + "\n")
        print(f"written: {given.out}")


def table(rounds: list[dict[str, float]]) -> str:
    lines = [f"{'way':22}{'n':>4}{'steps /s':>10}{'from':>8}{'to':>8}"]
    for way in WAYS:
        rates = [row[way] for row in rounds]
        lines.append(f"{way:22}{len(rates):4}{middle(rates, digits=1, width=8)}")
    lines.append(f"{'ratio':22}{'n':>4}{'':>4}{'median':>6}{'from':>8}{'to':>8}")
    for way, other in RATIOS:
        ratios = [row[way] / row[other] for row in rounds]
        lines.append(f"{way + ' / ' + other:22}{len(ratios):4}{middle(ratios, digits=3, width=8)}")
    return "\n".join(lines)


def middle(values: list[float], *, digits: int, width: int) -> str:
    shown = (statistics.median(values), min(values), max(values))
    return "  " + "".join(f"{value:{width}.{digits}f}" for value in shown)


def busy_s() -> float:
    """Processor seconds that anybody has used since this machine started."""
    user, nice, system, _, _, irq, softirq, *_ = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    return sum(map(int, (user, nice, system, irq, softirq))) / os.sysconf("SC_CLK_TCK")


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
