# SPDX-License-Identifier: Apache-2.0
"""The loading studies at the published sizes: seconds and joules of load, train and evaluate by CSV reader.

    python benchmarks/loading_energy.py --data DIR --out RUNS [--scale 1] [--p1b3-scale 0.25]
        [--workloads nt3,p1b2,p1b1,p1b3] [--repeats nt3=3,p1b1=2] [--warmup p1b1=0]
        [--loaders ours,ours_cached] [--launcher inline] [--limit 500]

Makes the stand-ins side by side (those that `--data` holds already are taken), then runs the studies in
studies/loading*.toml on them, one trial after the other, each in a process of its own (`--launcher inline`:
all in this one, which saves the starts). It shows no table: that is `joulelab show RUNS --loading`, on any
machine. P1B3 has a scale of its own: its files are 1.1 GB, and its training is the longest of the four. No
study begins after `--limit` seconds. A warm-up reads the files once more, which with pandas may take minutes:
without one, fill the cache of `ours_cached` first, by a run of that loader alone into another `--out`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from joulelab.data.generate import generate
from joulelab.study.runner import run_study
from joulelab.study.study_file import read_study

if TYPE_CHECKING:
    from collections.abc import Sequence

    from joulelab.study.study_file import Study

STUDIES = Path(__file__).resolve().parent.parent / "studies"
FILES = {
    "nt3": "loading.toml",
    "p1b2": "loading-p1b2.toml",
    "p1b1": "loading-p1b1.toml",
    "p1b3": "loading-p1b3.toml",
}
REPEATS = 3


def sized(name: str, *, data: Path, scale: float, given: argparse.Namespace) -> Study:
    """The study of that workload, on files that are there."""
    study = read_study(STUDIES / FILES[name])
    return msgspec.structs.replace(
        study,
        parameters={**study.parameters, "scale": scale, "data": str(data.resolve())},
        grid={**study.grid, "loader": tuple(given.loaders)} if given.loaders else study.grid,
        repeats=given.repeats.get(name, REPEATS),
        warmup=given.warmup.get(name, study.warmup),
        launcher=given.launcher,
    )


def counts(text: str) -> dict[str, int]:
    pairs = (part.partition("=") for part in text.split(","))
    return {name: int(count) for name, _, count in pairs}


def make(folders: dict[str, Path], scales: dict[str, float]) -> None:
    """What is not there yet, each by a process of its own."""
    begun = [
        subprocess.Popen([sys.executable, __file__, "--generate", name, str(folder), str(scales[name])])
        for name, folder in folders.items()
        if not folder.exists()
    ]
    codes = [process.wait() for process in begun]
    if any(codes):
        raise SystemExit("the stand-ins could not be made")


def run(names: Sequence[str], given: argparse.Namespace) -> None:
    begun_s = time.monotonic()
    scales = dict.fromkeys(names, given.scale) | {"p1b3": given.p1b3_scale}
    folders = {name: given.data / f"{name}-{scales[name]:g}" for name in names}
    make(folders, scales)
    print(f"files there after {time.monotonic() - begun_s:.0f} s", flush=True)
    for name in names:
        if time.monotonic() - begun_s > given.limit:
            print(f"left out for want of time: {name}")
            continue
        study = sized(name, data=folders[name], scale=scales[name], given=given)
        summary = run_study(study, given.out / study.name)
        print(f"{name}: {summary.text()}; {time.monotonic() - begun_s:.0f} s after the start", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", default=",".join(FILES))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--p1b3-scale", type=float, default=0.25)
    parser.add_argument("--repeats", type=counts, default={}, help=f"by workload; otherwise {REPEATS}")
    parser.add_argument("--warmup", type=counts, default={}, help="by workload; otherwise the study's")
    parser.add_argument("--loaders", type=lambda text: text.split(","), help="otherwise the study's")
    parser.add_argument("--launcher", default="local", help="local or inline")
    parser.add_argument("--limit", type=float, default=500.0)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--generate", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.generate:
        name, folder, scale = given.generate
        generate(name, Path(folder), scale=float(scale))
        return
    if given.data is None or given.out is None:
        parser.error("--data and --out are wanted")
    run(given.workloads.split(","), given)


if __name__ == "__main__":
    main()
