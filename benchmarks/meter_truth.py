# SPDX-License-Identifier: Apache-2.0
"""How far JouleLab is from a counter that another process reads without pause, and how often its bound held.

    python benchmarks/meter_truth.py [--stand-in] [--seconds 20] [--windows 400] [-o FILE.json]

For each load (bursts in step with the counter, drifting through its period, long bursts, short bursts)
windows of 0.05 to 5 s are
asked for that begin and end
  anywhere    against the difference of the last reads before the ends (itself uncertain by one period of
  the counter), and
  on edges    at moments when the counter moved: there its difference is the truth, to within one read's
  length.
On a GPU the loads are matrix products (torch). With `--stand-in` they are the stand-in library's own, and a
third line gives the error
against the exact integral of its power.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PERIOD_S = 0.1
# name: seconds on, seconds off
LOADS = {
    "23 of 100.0 ms": (0.023, 0.077),
    "23 of 100.5 ms": (0.023, 0.0775),
    "47 of 100.5 ms": (0.047, 0.0535),
    "160 of 200 ms": (0.160, 0.040),
    "300 of 600 ms": (0.300, 0.300),
    "5 of 20.3 ms": (0.005, 0.0153),
}


@dataclass(frozen=True)
class Log:
    """Reads at which the counter had moved.

    The time of the last read before, of the read itself, and the value.
    """

    before_ns: list[int]
    after_ns: list[int]
    energy_j: list[float]

    def plain(self, start_ns: int, end_ns: int) -> float:
        """Difference of what two reads at these instants would have shown."""
        return self._shown(end_ns) - self._shown(start_ns)

    def _shown(self, at_ns: int) -> float:
        return self.energy_j[bisect_right(self.after_ns, at_ns) - 1]

    def edge_ns(self, index: int) -> int:
        return (self.before_ns[index] + self.after_ns[index]) // 2


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stand-in", action="store_true", help="a stand-in NVML, where there is no GPU")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each load")
    parser.add_argument("--windows", type=int, default=400, help="of each kind, for each load")
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as ending:
        burner = None if given.stand_in else ending.enter_context(burning())
        for name, (on_s, off_s) in LOADS.items():
            if given.stand_in:
                os.environ.update(stand_in(Path(folder), on_s=on_s, off_s=off_s))
            rows += one_load(name, on_s, off_s, given=given, folder=Path(folder), burner=burner)
            print("\n".join(line(row) for row in rows[-3 if given.stand_in else -2 :]), flush=True)
    if given.out:
        about = {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),  # noqa: TID251  a date
            "arguments": vars(given) | {"out": ""},
        }
        given.out.write_text(json.dumps({**about, "device": device(), "rows": rows}, indent=1) + "\n")


@contextmanager
def burning() -> Iterator[subprocess.Popen[str]]:
    """A process that burns the GPU in the rhythm that it is told."""
    with subprocess.Popen(
        [sys.executable, str(HERE / "probes" / "bursts.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", "the load did not start"
        try:
            yield process
        finally:
            process.kill()


def one_load(
    name: str,
    on_s: float,
    off_s: float,
    *,
    given: argparse.Namespace,
    folder: Path,
    burner: subprocess.Popen[str] | None,
) -> list[dict[str, object]]:
    from joulelab import Meter

    log_path = folder / "counter.log"
    log_path.unlink(missing_ok=True)
    with Meter(devices=["nvidia"]) as meter:
        reader = subprocess.Popen([sys.executable, str(HERE / "probes" / "counter_log.py"), str(log_path)])
        if burner is not None:
            assert burner.stdin is not None
            burner.stdin.write(f"{on_s} {off_s}\n")
            burner.stdin.flush()
            time.sleep(1.0)  # the new rhythm has set in
        start_ns = time.monotonic_ns()
        time.sleep(given.seconds)
        end_ns = time.monotonic_ns()
        time.sleep(0.3)  # the reader's log reaches past the end
        reader.terminate()
        reader.wait()
        log = read_log(log_path)
        rng = random.Random(1)
        kinds: dict[str, list[tuple[float, float, float, float]]] = {"anywhere": [], "on edges": []}
        if given.stand_in:
            kinds["exact"] = []
        # The reader began a moment after its start, and an edge that it saw late is no reference.
        start_ns = max(start_ns, log.after_ns[0])
        usual_ns = statistics.median(b - a for a, b in zip(log.before_ns, log.after_ns, strict=True))
        inside = [
            i
            for i, (before, after) in enumerate(zip(log.before_ns, log.after_ns, strict=True))
            if start_ns < before and after < end_ns and after - before < 2 * usual_ns
        ]
        for _ in range(given.windows):
            length_ns = int(min(0.05 * 100 ** rng.random(), given.seconds / 2) * 1e9)
            a_ns = rng.randrange(start_ns, end_ns - length_ns)
            found = meter.between(a_ns, a_ns + length_ns)
            ours = (length_ns * 1e-9, float(found.energy_j or 0), float(found.energy_error_j or 0))
            kinds["anywhere"].append((*ours, log.plain(a_ns, a_ns + length_ns)))
            if given.stand_in:
                kinds["exact"].append(
                    (*ours, exact_j(a_ns + length_ns, on_s, off_s) - exact_j(a_ns, on_s, off_s))
                )
            first = rng.choice(inside[:-1])
            wanted = first + max(1, round(length_ns * 1e-9 / PERIOD_S))
            last = next((i for i in inside if i >= wanted), inside[-1])
            found = meter.between(log.edge_ns(first), log.edge_ns(last))
            span_s = (log.edge_ns(last) - log.edge_ns(first)) * 1e-9
            truth_j = log.energy_j[last] - log.energy_j[first]
            kinds["on edges"].append(
                (span_s, float(found.energy_j or 0), float(found.energy_error_j or 0), truth_j)
            )
    slack_s = {"anywhere": 2 * PERIOD_S, "on edges": 2 * usual_ns * 1e-9, "exact": 0.0}
    return [summary(name, kind, windows, slack_s=slack_s[kind]) for kind, windows in kinds.items()]


def summary(
    load: str, kind: str, windows: list[tuple[float, float, float, float]], *, slack_s: float
) -> dict[str, object]:
    """`slack_s`: the reference's own uncertainty, as that much time at the load's highest power seen."""
    peak_w = max(truth / span for span, _, _, truth in windows if span >= PERIOD_S)
    errors = [(ours - truth) for _, ours, _, truth in windows]
    held = [abs(ours - truth) <= bound + slack_s * peak_w for _, ours, bound, truth in windows]
    strictly = [abs(ours - truth) <= bound for _, ours, bound, truth in windows]
    return {
        "load": load,
        "kind": kind,
        "n": len(windows),
        "bias_j": statistics.fmean(errors),
        "sd_j": statistics.pstdev(errors),
        "worst_j": max(abs(error) for error in errors),
        "bound_median_j": statistics.median(bound for _, _, bound, _ in windows),
        "held": sum(held) / len(held),
        "held_strictly": sum(strictly) / len(strictly),
        "reference_slack_j": slack_s * peak_w,
    }


def line(row: dict[str, object]) -> str:
    numbers = " ".join(f"{key} {row[key]:7.3f}" for key in ("bias_j", "sd_j", "worst_j", "bound_median_j"))
    shares = f"held {row['held']:.4f} (without the reference's own slack {row['held_strictly']:.4f})"
    return f"{row['load']:16} {row['kind']:9} n {row['n']:4} {numbers} {shares}"


def read_log(path: Path) -> Log:
    rows = [tuple(map(int, text.split())) for text in path.read_text().splitlines() if text.count(" ") == 2]
    return Log([r[0] for r in rows], [r[1] for r in rows], [r[2] / 1000 for r in rows])


def exact_j(at_ns: int, on_s: float, off_s: float) -> float:
    """The stand-in's energy since time zero, as its source has it."""
    turns, rest_s = divmod(at_ns * 1e-9, on_s + off_s)
    return turns * (on_s * 690 + off_s * 125) + min(rest_s, on_s) * 690 + max(0.0, rest_s - on_s) * 125


def stand_in(folder: Path, *, on_s: float, off_s: float) -> dict[str, str]:
    library = folder / "libnvidia-ml.so.1"
    if not library.exists():
        source = HERE.parent / "tests" / "fakes" / "fakenvml.c"
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-lm"], check=True)
    config = folder / "config"
    config.write_text(f"gpus 1\nhigh_s {on_s}\nlow_s {off_s}\nread_ms 3.8\n")
    return {"FAKENVML_CONFIG": str(config), "JOULELAB_NVML_LIBRARY": str(library)}


def device() -> str:
    from joulelab import devices

    return ", ".join(found.name for found in devices(["nvidia"]))


if __name__ == "__main__":
    main()
