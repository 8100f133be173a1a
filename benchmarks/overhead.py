# SPDX-License-Identifier: Apache-2.0
"""What metering costs the training: JouleLab beside Zeus 0.16 and CodeCarbon 3.3, interleaved in one run.

    python benchmarks/overhead.py [--peers PYTHON] [--rounds 10] [--real] [-o FILE.json]

Three questions, each asked in a process of its own, in turn, `rounds` times:
  window   microseconds of the training's own time for one window around nothing
  step     added time of a window around every step of a 25 ms training step, in per cent
  sampler  share of one core, and memory, of the sampler with 8 devices (JouleLab only: the peers read in
  the training process)

`clock` is the control: two time stamps and nothing else, which after 25 ms of other work are not free either.
The peers need an environment of their own:
    python -m venv .bench && .bench/bin/pip install zeus==0.16.0 codecarbon==3.3.2
Without a GPU all read the same stand-in NVML library, in which a read of the energy counter takes the 3.8
ms of CPU that it took
on an H200 (2026-11-18), or nothing (`--counter-read-ms 0`). With `--real` they read the machine's own.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROBES = HERE / "probes"
TOOLS = ("clock", "joulelab", "zeus", "codecarbon")
OURS = ("clock", "joulelab")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", type=Path, default=HERE.parent / ".bench" / "bin" / "python")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--counter-read-ms", type=float, default=3.8)
    parser.add_argument("--real", action="store_true", help="read the machine's own sensors, no stand-in")
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = (
            dict(os.environ) if given.real else stand_in(Path(folder), read_ms=given.counter_read_ms)
        )
        rows = measure(given.rounds, peers=given.peers, environment=environment)
        if not given.real:
            rows["sampler"] = [
                ask(sys.executable, "sampler", "joulelab", environment=environment) for _ in range(3)
            ]
    print(table(rows, read_ms=None if given.real else given.counter_read_ms))
    if given.out:
        given.out.write_text(json.dumps({**setting(given), "rows": rows}, indent=1) + "\n")
        print(f"written: {given.out}")


def stand_in(folder: Path, *, read_ms: float) -> dict[str, str]:
    """The environment in which every tool sees the same stand-in NVML with one GPU."""
    library = folder / "libnvidia-ml.so.1"
    source = HERE.parent / "tests" / "fakes" / "fakenvml.c"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-lm"], check=True)
    config = folder / "config"
    config.write_text(f"gpus 1\nread_ms {read_ms}\n")
    smi = folder / "nvidia-smi"  # CodeCarbon asks for it before it looks at NVML
    smi.write_text("#!/bin/sh\nexit 0\n")
    smi.chmod(0o755)
    return {
        **os.environ,
        "FAKENVML_CONFIG": str(config),
        "JOULELAB_NVML_LIBRARY": str(library),
        "LD_LIBRARY_PATH": str(folder),
        "PATH": f"{folder}:{os.environ['PATH']}",
    }


def measure(rounds: int, *, peers: Path, environment: dict[str, str]) -> dict[str, list[dict[str, float]]]:
    """Every tool in turn in every round, so that a busy minute of the machine falls on all of them."""
    rows: dict[str, list[dict[str, float]]] = {}
    for number in range(rounds):
        for tool in TOOLS:
            python = sys.executable if tool in OURS else str(peers)
            if not Path(python).exists():
                continue
            for question in ("window", "step"):
                rows.setdefault(f"{question} {tool}", []).append(
                    ask(python, question, tool, environment=environment)
                )
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return rows


def ask(python: str, question: str, tool: str, *, environment: dict[str, str]) -> dict[str, float]:
    done = subprocess.run(
        [python, str(PROBES / f"{question}.py"), tool],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{question} {tool} failed:\n{done.stderr[-3000:]}")
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def table(rows: dict[str, list[dict[str, float]]], *, read_ms: float | None) -> str:
    where = (
        "the machine's own sensors" if read_ms is None else f"stand-in NVML, {read_ms:g} ms a counter read"
    )
    lines = [f"{where}; median (smallest .. largest) of n", ""]
    for key, answers in rows.items():
        for name in answers[0]:
            values = sorted(answer[name] for answer in answers)
            spread = f"({values[0]:.4g} .. {values[-1]:.4g})"
            lines.append(
                f"{key:20} {name:24} {statistics.median(values):10.4g} {spread:24} n = {len(values)}"
            )
    return "\n".join(lines)


def setting(given: argparse.Namespace) -> dict[str, object]:
    from joulelab.records.provenance import cpu_name

    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),  # noqa: TID251  a date
        "machine": cpu_name(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        # Paths belong to this machine and say nothing.
        "arguments": {name: value for name, value in vars(given).items() if not isinstance(value, Path)},
    }


if __name__ == "__main__":
    main()
