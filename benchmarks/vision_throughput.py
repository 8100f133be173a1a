# SPDX-License-Identifier: Apache-2.0
"""Joules and pictures a second of ResNet by precision, memory format, compiling and depth.

    python benchmarks/vision_throughput.py [--seconds 290] [--window 1.5] [-n 3] [-o FILE.json]
        [--only precision|depth|compile] [--ahead 5] [--smoke]

Pictures lie on the device (noise, four batches in turn), so that nothing but computing is measured.
`ours` is an epoch of the loop that a trial runs, under the meter that a trial has. Where a ratio is given, an
epoch of a bare loop over the same network, optimizer and batches follows each of them, under the same meter.
The first epochs of each side (compiling, choice of algorithms) are left out. Rows come in the order of their
weight; those for which the time does not suffice are named at the end. `--ahead` fills the compiler's cache
for all compiled rows first, side by side and before anything is measured: it saves waiting, and changes no
figure, since compiling is never in one.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from vision_parts import (
    DEVICE,
    Box,
    Kept,
    knobs_on,
    machine,
    repeat,
    say,
    setting,
    settled,
    shown,
    spread,
    write,
)

from joulelab import Meter
from joulelab.train.job import shaped
from joulelab.train.precision import precision as make_precision
from joulelab.workloads.resnet import FIXED, Resnet

if TYPE_CHECKING:
    from joulelab.workloads.workload import Setting

CL = {"memory_format": "channels_last"}
ON = {"compile": "on"}
# Extra joules against ResNet-50 as the paper gives them (Edelman et al. 2023, text to figure 3).
PAPER = {18: "-20 %", 34: "-20 %", 50: "0", 101: "near +50 %", 152: "nearly +100 %"}
# What a row takes beside its windows, roughly: decides what is begun.
EAGER_S, COMPILED_S, CACHED_S = 4.0, 45.0, 20.0


def rows(*, ratio: bool = True) -> list[dict[str, Any]]:
    """The rows about precision, the weightiest first; `bare` asks for the bare loop beside it."""
    first: list[dict[str, Any]] = [
        {"precision": "fp32", "bare": ratio},
        {"precision": "bf16", **CL, "bare": ratio},
        {"precision": "bf16", **CL, **ON, "bare": ratio},
        {"precision": "tf32"},
        {"precision": "tf32", **CL},
        {"precision": "bf16"},
        {"precision": "fp16"},
        {"precision": "fp16", **CL},
        {"precision": "fp32", **CL},
        {"precision": "fp64", "batch_size": 32},
        {"precision": "fp16", **CL, **ON},
        {"precision": "tf32", **CL, **ON},
    ]
    later: list[dict[str, Any]] = [
        {"precision": "fp64", "batch_size": 32, **CL},
        {"precision": "fp32", **CL, **ON},
        {"precision": "bf16", **ON},
        {"precision": "fp16", **ON},
        {"precision": "tf32", **ON},
        {"precision": "fp32", **ON},
        {"precision": "fp64", "batch_size": 32, **ON},
        {"precision": "fp64", "batch_size": 32, **CL, **ON},
    ]
    return [*first, *depths(), *later]


def depths() -> list[dict[str, Any]]:
    """Training and inference by depth, in the precision of the paper and in the one of today."""
    return [
        {"depth": depth, "task": task, **how}
        for how in ({"precision": "fp32"}, {"precision": "bf16", **CL})
        for task in ("train", "inference")
        for depth in (18, 34, 50, 101, 152)
    ]


def paced(window_s: float) -> type[Resnet]:
    """The workload with epochs as long as a window: the second epoch tells how many steps that are."""

    class Paced(Resnet):
        began_s = 0.0

        def load(self) -> None:
            super().load()
            self.steps = 8
            self.epoch = 0

        def pace(self) -> None:
            if self.epoch == 2:
                wait()
                each_s = (time.monotonic() - self.began_s) / self.steps
                self.steps = max(4, round(window_s / each_s))
            if self.epoch < 2:
                wait()
                self.began_s = time.monotonic()
            self.epoch += 1

        def batches(self, epoch: int, generator: torch.Generator) -> Iterator[Any]:
            self.pace()
            yield from super().batches(epoch, generator)

        def infer(self, model: torch.nn.Module) -> int:
            self.pace()
            return super().infer(model)

    return Paced


def wait() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


class Bare:
    """What one writes without any tool: forward, backward, step."""

    def __init__(self, asked: Setting) -> None:
        self.name = str(asked.knobs["precision"])
        source = Resnet(asked)
        source.load()
        self.batches = source.fixed
        self.model = shaped(
            source.model(), knobs=asked.knobs, precision=make_precision("fp32", device=DEVICE)
        ).train()
        fused = {"fused": True} if DEVICE.type == "cuda" and self.name != "fp16" else {"foreach": True}
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, **fused
        )
        self.scaler = torch.amp.GradScaler(DEVICE.type) if self.name == "fp16" else None

    def cast(self) -> contextlib.AbstractContextManager[object]:
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
        return (
            torch.autocast(DEVICE.type, kinds[self.name]) if self.name in kinds else contextlib.nullcontext()
        )

    def run(self, steps: int) -> None:
        model, optimizer, scaler = self.model, self.optimizer, self.scaler
        for step in range(steps):
            x, y = self.batches[step % FIXED]
            with self.cast():
                loss = functional.cross_entropy(model(x), y)
            if scaler is None:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            optimizer.zero_grad(set_to_none=True)


def measure(row: dict[str, Any], *, meter: Meter, n: int, window_s: float) -> dict[str, Any]:
    """Pictures a second and joules a picture of `n` epochs, and of the bare loop's between them."""
    knobs = {name: value for name, value in row.items() if name != "bare"}
    asked = setting(data="device", epochs=2 + n, **knobs)
    inference = asked.knobs["task"] == "inference"
    kept = Kept(meter)
    workload = paced(window_s)
    steps: list[int] = []
    made: list[Bare] = []

    class Noted(workload):  # type: ignore[misc, valid-type]
        def pace(self) -> None:
            super().pace()
            steps.append(self.steps)

    def between(line: dict[str, Any]) -> None:
        del line
        if row.get("bare"):
            if not made:
                made.append(Bare(asked))
                made[0].run(8)
            with kept.window("bare"):
                made[0].run(steps[-1])

    with knobs_on(asked):
        done = repeat(asked, meter=kept, workload=Noted, on_epoch=between)
    if not done.valid:
        return {**row, "invalid": done.reason}
    batch = int(asked.knobs["batch_size"])
    found = figures(kept.windows["inference" if inference else "train"], steps, batch=batch)
    bare = figures(kept.windows["bare"], steps, batch=batch) if made else None
    return {**row, "batch_size": batch, "ours": found, **({"beside": bare} if bare else {})} | (
        {"ratio": spread([a / b for a, b in zip(found["rates"], bare["rates"], strict=True)])} if bare else {}
    )


def figures(windows: list[Any], steps: list[int], *, batch: int) -> dict[str, Any]:
    pairs = list(zip(windows, steps, strict=True))[2:]
    rates = [count * batch / w.time_s for w, count in pairs]
    return {
        "rates": rates,
        "images_per_s": spread(rates),
        "j_per_image": spread([w.energy_j / (count * batch) for w, count in pairs if w.energy_j is not None]),
        "power_w": spread([w.power_w for w, _ in pairs if w.power_w is not None]),
        "error_share": max((w.measurement.relative_error() for w, _ in pairs), default=None),
        "source": pairs[0][0].source,
        "devices": dict(pairs[0][0].energy_j_by_device.items()),
    }


def compile_ahead(chosen: list[dict[str, Any]], *, at_once: int, arguments: list[str]) -> None:
    """One process a compiled row, a few at a time; each leaves what it compiled in the compiler's cache."""
    waiting = [number for number, row in enumerate(chosen) if "compile" in row]
    running: list[subprocess.Popen[bytes]] = []
    while waiting or running:
        while waiting and len(running) < at_once:
            command = [sys.executable, __file__, *arguments, "--row", str(waiting.pop(0))]
            running.append(subprocess.Popen(command))
        running.pop(0).wait()


def compile_one(row: dict[str, Any]) -> None:
    """A few steps of one row, for what the compiler makes of them."""
    asked = setting(data="device", epochs=1, **{name: value for name, value in row.items() if name != "bare"})
    asked.parameters["images"] = 2 * int(asked.knobs["batch_size"])  # type: ignore[index]
    with Meter(devices=("estimate",)) as meter, knobs_on(asked):
        repeat(asked, meter=Kept(meter))


def label(row: dict[str, Any]) -> str:
    parts = [f"ResNet-{row.get('depth', 50)}", str(row["precision"])]
    parts += [
        name for name, key in (("channels_last", "memory_format"), ("compile", "compile")) if key in row
    ]
    parts += [f"batch {row['batch_size']}"] if "batch_size" in row else []
    return ", ".join([*parts, *(["inference"] if row.get("task") == "inference" else [])])


def table(found: list[dict[str, Any]]) -> str:
    lines = [f"{'setting':58} {'images/s':>16} {'J/image':>18} {'W':>8} {'n':>2} {'ours/bare':>14}"]
    for row in found:
        if "invalid" in row:
            lines.append(f"{label(row):58} invalid: {row['invalid']}")
            continue
        ours = row["ours"]
        lines.append(
            f"{label(row):58} {shown(ours['images_per_s']):>16} {shown(ours['j_per_image']):>18} "
            f"{shown(ours['power_w'], 3).split(' ')[0]:>8} {ours['j_per_image']['n']:>2} "
            f"{shown(row['ratio']) if 'ratio' in row else '':>14}"
        )
    return "\n".join([*lines, "", *depth_lines(found)])


def depth_lines(found: list[dict[str, Any]]) -> list[str]:
    """Joules a picture against ResNet-50, in the same precision and the same call."""
    by: dict[tuple[str, str], dict[int, float]] = {}
    for row in found:
        if "depth" in row and "ours" in row and row["ours"]["j_per_image"]["mean"]:
            kind = (row["task"], label({**row, "depth": 0}).removeprefix("ResNet-0, "))
            by.setdefault(kind, {})[row["depth"]] = row["ours"]["j_per_image"]["mean"]
    lines = []
    for (task, how), joules in by.items():
        if 50 in joules:
            extra = ", ".join(f"{d}: {100 * (j / joules[50] - 1):+.0f} %" for d, j in joules.items())
            lines.append(f"against ResNet-50, {task}, {how}: {extra}")
    return (
        [*lines, f"the paper, training: {', '.join(f'{d}: {w}' for d, w in PAPER.items())}"] if lines else []
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=290.0, help="no row is begun that would end later")
    parser.add_argument("--window", type=float, default=1.5, help="seconds of a measured epoch")
    parser.add_argument("-n", type=int, default=3, help="measured epochs of a row")
    parser.add_argument("--only", default="", help="precision, depth, or compile: rows of one kind")
    parser.add_argument("--ahead", type=int, default=0, help="compile first, so many rows side by side")
    parser.add_argument("--row", type=int, help="only compile this one: what --ahead starts")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many of the first rows")
    parser.add_argument("--smoke", action="store_true", help="tiny pictures and layers, to try the script")
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    box = Box(given.seconds)
    tiny = {"image_size": 32, "width": 4, "batch_size": 4, "classes": 10} if given.smoke else {}
    chosen: list[Callable[[dict[str, Any]], bool]] = {
        "": [lambda _: True],
        "precision": [lambda row: "depth" not in row],
        "depth": [lambda row: "depth" in row],
        "compile": [lambda row: "compile" in row],
    }[given.only]
    listed = [{**row, **tiny} for row in rows() if all(keep(row) for keep in chosen)][given.skip :]
    if given.row is not None:
        compile_one(listed[given.row])
        return
    if given.ahead:
        compile_ahead(listed, at_once=given.ahead, arguments=sys.argv[1:])
        say(f"compiled ahead, {box.left_s():.0f} s left")
    compiled_s = CACHED_S if given.ahead else COMPILED_S
    found: list[dict[str, Any]] = []
    late: list[str] = []
    devices = ("nvidia",) if DEVICE.type == "cuda" else ()
    with Meter(devices=devices) as meter:
        for row in listed:
            sides = 2 if row.get("bare") else 1
            need_s = sides * (given.n + 1) * given.window + (compiled_s if "compile" in row else EAGER_S)
            if box.left_s() < need_s and not given.smoke:
                late.append(label(row))
                continue
            began_s = time.monotonic()
            try:
                found.append(measure(row, meter=meter, n=given.n, window_s=given.window))
            except (RuntimeError, torch.OutOfMemoryError) as error:
                found.append({**row, "invalid": f"{type(error).__name__}: {str(error)[:200]}"})
            settled()
            say(f"{time.monotonic() - began_s:5.1f} s  {table(found[-1:]).splitlines()[1]}")
            write(given.out, {**machine(), "arguments": vars(given), "rows": found, "left_out": late})
    print(table(found))
    if late:
        print(f"left out for want of time: {'; '.join(late)}")
    write(given.out, {**machine(), "arguments": vars(given), "rows": found, "left_out": late})


if __name__ == "__main__":
    main()
