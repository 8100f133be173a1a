# SPDX-License-Identifier: Apache-2.0
"""Accuracy against the number of workers: where it falls, by the rule for the learning rate.

    python benchmarks/accuracy_cliff.py --out RUNS [--runs nt3,p1b2] [--rules linear,noise]
        [--workers 1,12,24,48,96] [--seeds 3] [--at-once 8] [--seconds 500]
        [--scale nt3=0.1] [--epochs nt3=384,p1b2=768]

The epochs of a training are dealt out to N workers as in Wu et al. (2019). One device makes their updates in
turn, which is exact (docs/workers.md); time and energy are not those of N workers, so several trainings share
the device. Each is a trial folder below --out, and one that is done is not run again. None begins after
--seconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from joulelab.data.generate import generate
from joulelab.launch.inline import Inline
from joulelab.records import store
from joulelab.records.layout import TrialFolder
from joulelab.records.trial import Result, TrialSpec
from joulelab.workloads import RECIPES

EPOCHS = {"nt3": 384, "p1b2": 768}
SCALES = {"nt3": 0.1, "p1b2": 1.0}
FIGURE = {"nt3": "accuracy", "p1b2": "accuracy"}


def planned(given: argparse.Namespace) -> list[TrialSpec]:
    """Seed by seed, so that a run cut short has some of everything."""
    specs = []
    for seed in range(1, given.seeds + 1):
        for name in given.runs:
            for workers in given.workers:
                # One worker has no rule.
                for rule in given.rules if workers > 1 else ["none"]:
                    knobs = {"epochs": given.epochs[name], "loader": "ours_cached", "threads": 1}
                    knobs |= {"workers": workers, "emulated": True, "sharing": "partition", "rate_rule": rule}
                    usual = {p.name: p.default for p in RECIPES[name].parameters if p.default is not None}
                    here = {"scale": given.scale[name], "data": str(data_of(given, name))}
                    spec = TrialSpec(
                        workload=name,
                        parameters={**usual, **here},
                        knobs={**RECIPES[name].knobs, **knobs},
                        seed=seed,
                    )
                    specs.append(spec)
    return specs


def data_of(given: argparse.Namespace, name: str) -> Path:
    return (given.out / "data" / f"{name}-{given.scale[name]:g}").resolve()


def run(given: argparse.Namespace) -> None:
    """As many processes as are asked for, each with every so-manieth training."""
    began_s = time.monotonic()
    for name in given.runs:
        generate(name, data_of(given, name), scale=given.scale[name])
    files = []
    specs = planned(given)
    for part in range(given.at_once):
        path = given.out / f"part-{part}.json"
        folders = []
        for spec in specs[part :: given.at_once]:
            folder = TrialFolder(given.out / "trials" / spec.folder_name())
            folder.path.mkdir(parents=True, exist_ok=True)
            store.write_json(folder.spec, spec)
            folders.append(str(folder.path))
        path.write_text(json.dumps(folders))
        files.append(path)
    left_s = given.seconds - (time.monotonic() - began_s)
    command = [sys.executable, __file__, "--out", str(given.out), "--seconds", str(left_s), "--part"]
    children = [subprocess.Popen([*command, str(path)]) for path in files]
    for child in children:
        child.wait()


def part(path: Path, *, seconds: float) -> None:
    until_s = time.monotonic() + seconds
    for name in json.loads(path.read_text()):
        folder = TrialFolder(Path(name))
        if folder.done.exists():
            continue
        if time.monotonic() > until_s:
            print(f"left out for want of time: {folder.path.name}", file=sys.stderr)
            continue
        Inline().run(folder)


def table(given: argparse.Namespace) -> str:
    """Mean and range over seeds of the accuracy after the last epoch."""
    found: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for path in sorted((given.out / "trials").glob("*")):
        folder = TrialFolder(path)
        if folder.done.exists():
            spec, result = store.read_json(folder.spec, TrialSpec), store.read_json(folder.result, Result)
            key = spec.workload, str(spec.knobs["rate_rule"]), int(spec.knobs["workers"])
            last = store.read_lines(folder.metrics)[-1]
            found.setdefault(key, []).append({**last, "valid": result.valid})
    head = f"{'':6}{'rule':10}{'workers':>8}{'epochs each':>12}{'accuracy, mean (least to most)':>34}"
    lines = [f"{head}{'n':>4}  gain"]
    for (name, rule, workers), rows in sorted(found.items()):
        values = [row[FIGURE[name]] for row in rows if row["valid"] and FIGURE[name] in row]
        if not values:
            lines.append(f"{name:6}{rule:10}{workers:8}   no valid training")
            continue
        said = f"{statistics.fmean(values):.3f} ({min(values):.3f} to {max(values):.3f})"
        gains = [row["rate_gain"] for row in rows if "rate_gain" in row]
        gain = f"{statistics.fmean(gains):.1f}" if gains else ""
        lines.append(f"{name:6}{rule:10}{workers:8}{rows[0]['epoch']:12}{said:>34}{len(values):4}  {gain}")
    return "\n".join(lines)


def pairs(text: str) -> dict[str, float]:
    return {name: float(value) for name, _, value in (part.partition("=") for part in text.split(","))}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=lambda text: text.split(","), default=["nt3", "p1b2"])
    parser.add_argument("--rules", type=lambda text: text.split(","), default=["linear", "noise"])
    parser.add_argument(
        "--workers", type=lambda text: [int(n) for n in text.split(",")], default=[1, 12, 24, 48, 96]
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--scale", type=pairs, default={})
    parser.add_argument("--epochs", type=pairs, default={})
    parser.add_argument("--part", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.scale = {**SCALES, **given.scale}
    given.epochs = {name: int(count) for name, count in {**EPOCHS, **given.epochs}.items()}
    if given.part:
        part(given.part, seconds=given.seconds)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    run(given)
    print(table(given))


if __name__ == "__main__":
    main()
