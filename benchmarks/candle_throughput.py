# SPDX-License-Identifier: Apache-2.0
"""What the training loop costs beside a bare loop over the same network: items a second and joules a sample.

    python benchmarks/candle_throughput.py [--workloads nt3,p1b1] [--precisions fp32,tf32,bf16]
        [--eager | --compiled] [--rounds 3] [--seconds 0.8] [--scale 1] [--limit 240] [-o FILE.json]

Each workload at full width with rows of the published number and shape on the device (drawn there: the values
do not matter for the speed, the share of zeros is that of the stand-ins), in each precision, as it is and
compiled. Two sides take turns, `rounds` times each, a round for about `seconds`:
  loop   the real thing: batches in a new order, tape, metrics, precision, windows of the meter, epochs of the
         real length; its figures are those of the windows called train
  bare   forward, loss, backward, optimizer over four ready batches in turn, no metrics, no checks, one window
One process a workload. `ratio` is loop over bare, the median of the rounds' own ratios; the aim is 0.95.
What cannot begin before `--limit` seconds have passed is left out, and said to be.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

WORKLOADS = ("nt3", "p1b2", "p1b3", "p1b1")
PRECISIONS = ("fp32", "tf32", "bf16")
READY = 4  # batches of the bare loop
P1B3_TRAIN = 100_000  # rows of the 900,136, so that an epoch is a thousand steps; its validation shrinks too


# ---- data of the right shape, made on the device -------------------------------------------------
def fill_nt3(w: Any, torch: Any, genes: int) -> None:
    def rows(count: int) -> Any:
        values = torch.rand(count, 1, genes, device=w.setting.device, dtype=w.setting.dtype)
        return values.pow(4).mul_(torch.rand_like(values) > 0.47)

    w.train_x, w.val_x = rows(1_120), rows(280)
    w.test_x = w.val_x
    w.train_y, w.val_y = (torch.arange(n, device=w.setting.device) % 2 for n in (1_120, 280))
    w.test_y = w.val_y


def fill_p1b1(w: Any, torch: Any, genes: int) -> None:
    def rows(count: int) -> Any:
        values = torch.rand(count, genes, device=w.setting.device, dtype=w.setting.dtype)
        return values.mul_(torch.rand_like(values) > 0.47)

    w.train_x, w.val_x, w.test_x = rows(2_700), rows(300), rows(100)


def fill_p1b2(w: Any, torch: Any, genes: int) -> None:
    def rows(count: int) -> Any:
        return (torch.rand(count, genes, device=w.setting.device) < 0.004).to(w.setting.dtype)

    w.kinds = 10
    w.train_x, w.val_x, w.test_x = rows(2_700), rows(300), rows(100)
    w.train_y, w.val_y, w.test_y = (torch.arange(n, device=w.setting.device) % 10 for n in (2_700, 300, 100))


def fill_p1b3(w: Any, torch: Any, scale: float) -> None:
    from joulelab.workloads.p1b3 import Cycle

    device, dtype = w.setting.device, w.setting.dtype
    cells, drugs = round(25_722 * scale), round(3_809 * scale)
    w.cells = torch.randn(59, cells, device=device, dtype=dtype)
    w.drugs = torch.randn(33_309, drugs, device=device, dtype=dtype)
    val = 1_000
    count = P1B3_TRAIN + 2 * val
    w.cell = torch.randint(59, (count,), device=device)
    w.drug = torch.randint(33_309, (count,), device=device)
    w.dose = torch.rand(count, device=device, dtype=dtype) - 5.0
    w.growth = 0.6 * torch.randn(count, device=device, dtype=dtype)
    w.train_rows = P1B3_TRAIN
    w.train_cycle = Cycle(0, P1B3_TRAIN)
    w.val_cycles = Cycle(P1B3_TRAIN, val), Cycle(P1B3_TRAIN, val)
    w.test_cycle = Cycle(P1B3_TRAIN + val, val)


def fill(name: str, w: Any, torch: Any, scale: float) -> None:
    torch.manual_seed(0)
    if name == "p1b3":
        fill_p1b3(w, torch, scale)
        return
    genes = {"nt3": 60_483, "p1b1": 60_483, "p1b2": 28_204}[name]
    {"nt3": fill_nt3, "p1b1": fill_p1b1, "p1b2": fill_p1b2}[name](w, torch, max(40, round(genes * scale)))


# ---- the loss, and nothing else ------------------------------------------------------------------
def bare_loss(name: str, torch: Any) -> Callable[[Any, Any], Any]:
    from joulelab.workloads import candle, p1b2

    functional = torch.nn.functional
    if name == "nt3":
        return lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1])
    if name == "p1b1":
        return lambda model, batch: functional.mse_loss(candle.widened(model(batch)).sigmoid(), batch)
    if name == "p1b3":
        return lambda model, batch: functional.mse_loss(candle.widened(model(batch[0])[:, 0]), batch[1])

    def with_penalty(model: Any, batch: Any) -> Any:
        logits, activity = model(batch[0])
        return p1b2.renormalised_cross_entropy(logits, batch[1]) + p1b2.PENALTY * activity

    return with_penalty


@dataclass(frozen=True)
class Case:
    name: str
    precision: str
    compiled: bool
    rounds: int
    seconds: float
    scale: float


def case(asked: Case, meter: Any, torch: Any) -> dict[str, Any]:  # noqa: PLR0915  both sides share the same network
    """Both sides in turn."""
    from joulelab.records import plugin
    from joulelab.train.job import Job, shaped
    from joulelab.train.loop import run_repeat
    from joulelab.train.precision import PRECISIONS as PARTS
    from joulelab.train.precision import precision as make_precision
    from joulelab.workloads import RECIPES
    from joulelab.workloads import WORKLOADS as CLASSES
    from joulelab.workloads.workload import Setting

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    recipe = RECIPES[asked.name]
    knobs = {**recipe.knobs, "precision": asked.precision, "epochs": 1}
    parameters = {p.name: p.default for p in recipe.parameters if p.default is not None}
    parameters["scale"] = asked.scale
    setting = Setting(
        parameters=parameters, knobs=knobs, data=None, device=device, dtype=PARTS[asked.precision].dtype
    )
    base = plugin.load(CLASSES, asked.name, what="workload")
    source = base(setting)
    fill(asked.name, source, torch, asked.scale)
    torch.manual_seed(0)
    net = source.model()
    knobs["compile"] = "off"  # done here, once for both sides
    net = shaped(
        net,
        knobs={"compile": "on" if asked.compiled else "off"},
        precision=make_precision(asked.precision, device=device),
    )
    own = vars(base(setting)).keys()
    drawn = {key: value for key, value in vars(source).items() if key not in own}

    class Ready(base):  # type: ignore[valid-type,misc]
        """The same workload with its rows already there, and one network for all rounds."""

        def load(self) -> None:
            vars(self).update(drawn)

        def model(self) -> Any:
            return net

    def run_loop(epochs: int) -> tuple[int, Any]:
        ready = Setting(
            parameters=parameters,
            knobs={**knobs, "epochs": epochs},
            data=setting.data,
            device=device,
            dtype=setting.dtype,
        )
        job = Job(
            workload=Ready,
            setting=ready,
            epochs=epochs,
            precision=asked.precision,
            seed=1,
            index=1,
            of=1,
            warmup=False,
        )
        repeat = run_repeat(job, meter=meter, on_epoch=lambda _: None, on_progress=lambda _: None)
        if not repeat.valid:
            raise SystemExit(f"the loop did not learn: {repeat.reason}")
        return repeat.samples, repeat.phases["train"]

    loss_of = bare_loss(asked.name, torch)
    size = int(knobs["batch_size"])

    def run_bare(steps: int) -> tuple[int, Any]:
        bare = base(setting)
        vars(bare).update(drawn)
        made = bare.batches(1, torch.Generator().manual_seed(1))
        ready = [batch for batch, _ in zip(made, range(READY), strict=False)]
        optimizer, precision = bare.optimizer(net), make_precision(asked.precision, device=device)
        autocast = precision.autocast
        before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
        net.train()
        window = meter.window("bare")
        with window:
            for step in range(steps):
                with autocast():
                    loss = loss_of(net, ready[step % READY])
                loss.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        torch.backends.cudnn.benchmark = before
        made.close()
        if not math.isfinite(loss.item()):
            raise SystemExit("the bare loop did not learn")
        return steps * size, window.measurement

    begun_s = time.monotonic()
    run_bare(2 * READY)  # compiles, and times the convolutions
    run_loop(1)
    warm_s = time.monotonic() - begun_s
    samples, cost = run_bare(4 * READY)
    steps = max(READY, round(asked.seconds * samples / size / cost.time_s))
    samples, cost = run_loop(1)
    epochs = max(1, round(asked.seconds / cost.time_s))
    rows = []
    for number in range(asked.rounds):
        # Which comes first changes, so that a warming card favours neither.
        sides = [("loop", lambda: run_loop(epochs)), ("bare", lambda: run_bare(steps))]
        row = {}
        for side, work in sides if number % 2 else reversed(sides):
            samples, cost = work()
            row[side] = {
                "samples": samples,
                "time_s": cost.time_s,
                "energy_j": cost.energy_j,
                "energy_error_j": cost.energy_error_j,
                "source": cost.source,
                "flags": list(cost.flags),
            }
        rows.append(row)
    return {
        "workload": asked.name,
        "precision": asked.precision,
        "compiled": asked.compiled,
        "batch_size": size,
        "epochs": epochs,
        "bare_steps": steps,
        "warm_up_s": warm_s,
        "rounds": rows,
    }


# ---- a process for each workload -----------------------------------------------------------------
def child(name: str, given: argparse.Namespace) -> None:
    import torch

    from joulelab.knobs import KNOBS
    from joulelab.meter.meter import Meter
    from joulelab.records import plugin

    begun_s = time.monotonic()
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # loads torch's compiler, once
    with Meter() as meter:
        for precision in given.precisions.split(","):
            for compiled in (False,) if given.eager else (True,) if given.compiled else (False, True):
                if time.monotonic() - begun_s > given.limit:
                    print(f"left out: {name} {precision} {'compiled' if compiled else ''}", file=sys.stderr)
                    continue
                knob = plugin.load(KNOBS, "precision", what="knob")()
                refused = knob.available(precision)
                if refused:
                    print(f"left out: {name} {precision}: {refused}", file=sys.stderr)
                    continue
                with ExitStack() as stack:
                    stack.enter_context(knob.applied(precision))
                    asked = Case(name, precision, compiled, given.rounds, given.seconds, given.scale)
                    print(json.dumps(case(asked, meter, torch)), flush=True)
                if compiled:
                    torch._dynamo.reset()  # noqa: SLF001  otherwise it gives up after eight variants
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()


def rate(side: dict[str, Any]) -> float:
    return float(side["samples"] / side["time_s"])


def joules(side: dict[str, Any]) -> float | None:
    return None if side["energy_j"] is None else float(side["energy_j"] / side["samples"])


HEAD = (
    f"{'workload':9}{'precision':10}{'':9}{'n':>3}{'loop /s':>10}{'bare /s':>10}"
    f"{'ratio':>7}{'from':>7}{'to':>7}{'J/sample':>11}{'+-':>10}{'bare J':>11}{'+-':>10}  source"
)


def line(found: dict[str, Any]) -> str:
    rounds = found["rounds"]
    ratios = [rate(row["loop"]) / rate(row["bare"]) for row in rounds]
    compiled = "compiled" if found["compiled"] else ""
    text = f"{found['workload']:9}{found['precision']:10}{compiled:9}{len(rounds):3}"
    for side in ("loop", "bare"):
        text += f"{statistics.median(rate(row[side]) for row in rounds):10.1f}"
    text += f"{statistics.median(ratios):7.3f}{min(ratios):7.3f}{max(ratios):7.3f}"
    for side in ("loop", "bare"):
        values = [joules(row[side]) for row in rounds]
        if None in values:
            text += f"{'-':>11}{'-':>10}"
            continue
        bounds = [row[side]["energy_error_j"] / row[side]["samples"] for row in rounds]
        text += f"{statistics.median(values):11.5f}{statistics.median(bounds):10.5f}"
    return text + f"  {rounds[0]['loop']['source']}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--eager", action="store_true", help="leave the compiled variants out")
    parser.add_argument("--compiled", action="store_true", help="nothing but the compiled variants")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.8, help="of a side in a round, about")
    parser.add_argument("--scale", type=float, default=1.0, help="of the width, to try the script")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds after which nothing begins")
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child, given)
        return
    begun_s = time.monotonic()
    found: list[dict[str, Any]] = []
    names = given.workloads.split(",")
    print(HEAD, flush=True)
    for place, name in enumerate(names):
        # What is left of the time is shared out among those that are still to come.
        left_s = given.limit - (time.monotonic() - begun_s)
        limit_s = max(1.0, left_s / (len(names) - place) * (1.3 if place + 1 < len(names) else 1.0))
        command = [sys.executable, __file__, "--child", name, "--limit", str(limit_s)]
        for option in ("precisions", "rounds", "seconds", "scale"):
            command += [f"--{option}", str(getattr(given, option))]
        command += ["--eager"] * given.eager + ["--compiled"] * given.compiled
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
            assert process.stdout is not None
            for text in process.stdout:
                if not text.startswith("{"):
                    continue
                found.append(json.loads(text))
                print(line(found[-1]), flush=True)
        if process.returncode:
            print(f"{name}: ended with {process.returncode}", file=sys.stderr)
    if given.out:
        given.out.write_text(json.dumps(about(given, found, time.monotonic() - begun_s), indent=1) + "\n")
        print(f"written: {given.out}")


def about(given: argparse.Namespace, found: list[dict[str, Any]], time_s: float) -> dict[str, Any]:
    import torch

    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),  # noqa: TID251  a date
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor(),
        "torch": torch.__version__,
        "scale": given.scale,
        "time_s": time_s,
        "cases": found,
    }


if __name__ == "__main__":
    main()
