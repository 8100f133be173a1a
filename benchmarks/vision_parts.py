# SPDX-License-Identifier: Apache-2.0
"""What the vision benchmarks share: a repeat of the real loop under the real meter, means with spread."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from joulelab.analysis.student import half_width
from joulelab.knobs import KNOBS
from joulelab.records import plugin
from joulelab.train.inference import run_inference
from joulelab.train.job import Job
from joulelab.train.loop import run_repeat
from joulelab.train.precision import PRECISIONS
from joulelab.workloads import RECIPES
from joulelab.workloads.resnet import Resnet
from joulelab.workloads.workload import Setting

if TYPE_CHECKING:
    from joulelab import Meter
    from joulelab.records.trial import Repeat

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Box:
    """The time that may be spent, from the start of the program."""

    def __init__(self, seconds: float) -> None:
        self._end_s = time.monotonic() + seconds

    def left_s(self) -> float:
        return self._end_s - time.monotonic()


class Kept:
    """A meter whose windows can be asked for afterwards, by name in their order."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.windows: dict[str, list[Any]] = {}

    def window(self, name: str) -> Any:
        window = self._meter.window(name)
        self.windows.setdefault(name, []).append(window)
        return window


def setting(**given: Any) -> Setting:
    """The recipe's own parameters and knobs, and what is given otherwise."""
    recipe = RECIPES["resnet"]
    parameters = {p.name: p.default for p in recipe.parameters if p.default is not None}
    knobs = dict(recipe.knobs)
    for name, value in given.items():
        (knobs if name in knobs else parameters)[name] = value
    dtype = PRECISIONS[str(knobs["precision"])].dtype
    return Setting(parameters=parameters, knobs=knobs, data=Path("unused"), device=DEVICE, dtype=dtype)


@contextlib.contextmanager
def knobs_on(asked: Setting) -> Iterator[None]:
    """The knobs of a setting, put on and back as a trial does."""
    with contextlib.ExitStack() as put_back:
        for name, value in asked.knobs.items():
            knob = plugin.load(KNOBS, name, what="knob")()
            refused = knob.available(value)
            if refused:
                raise SystemExit(refused)
            put_back.enter_context(knob.applied(value))
        yield


def repeat(
    asked: Setting,
    *,
    meter: Any,
    seed: int = 0,
    workload: type[Resnet] = Resnet,
    on_epoch: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Repeat:
    """One repeat of the real loop. The knobs are on already."""
    job = Job(
        workload=workload,
        setting=asked,
        epochs=int(asked.knobs["epochs"]),
        precision=str(asked.knobs["precision"]),
        seed=seed,
        index=1,
        of=1,
        warmup=False,
    )
    run = run_inference if asked.knobs["task"] == "inference" else run_repeat
    return run(job, meter=meter, on_epoch=on_epoch, on_progress=lambda _: None)


def spread(values: Sequence[float]) -> dict[str, float | int | None]:
    """Mean, half of its 95 % interval (Student's t), standard deviation and number."""
    listed = [value for value in values if value is not None]
    return {
        "mean": statistics.fmean(listed) if listed else None,
        "ci95": half_width(listed),
        "sd": statistics.stdev(listed) if len(listed) > 1 else None,
        "n": len(listed),
    }


def shown(figure: Mapping[str, Any], digits: int = 4) -> str:
    """A mean with its interval."""
    if figure["mean"] is None:
        return "-"
    interval = "" if figure["ci95"] is None else f" ±{100 * figure['ci95'] / figure['mean']:.1f}%"
    return f"{figure['mean']:.{digits}g}{interval}"


def settled() -> None:
    """Give back what the last row held, so that rows do not see each other's memory."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def machine() -> dict[str, object]:
    gpu = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "none"
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),  # noqa: TID251  a date
        "gpu": gpu,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
    }


def write(path: Path | None, content: Mapping[str, object]) -> None:
    """In one step: whoever is stopped in the middle of it has what was written before."""
    if path is not None:
        beside = path.with_name(path.name + ".new")
        beside.write_text(json.dumps(content, indent=1, default=str) + "\n")
        beside.replace(path)


def say(text: str) -> None:
    """A line for whoever watches; the tables go to standard output at the end."""
    print(text, file=sys.stderr, flush=True)
