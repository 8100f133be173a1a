# SPDX-License-Identifier: Apache-2.0
"""CSV into one float32 array: this reader beside the libraries that people use, interleaved in one run.

    python benchmarks/loading.py [--scale 0.1] [--rounds 5] [--shapes nt3] [--methods floor] [--limit 60]
                                 [-o FILE.json]

Four files are made, as wide as the CANDLE benchmarks' and at `--scale` of their rows: nt3 (`%.12g`, half of
it 0.0), p1b1 (`%.3g`, half of it 0.0), p1b2 (integers, most of one digit), tall (40 columns, `%.6f`). Every
reading is a process of its own. CPU seconds are user and system of the reading alone, without the imports and
the compilation before it, in memory that was touched just before (a virtual machine may have to fetch each
fresh page from its host, a second or two for a gigabyte); peak memory is the process's, less what it had
before, pages of a mapped file included; wrong counts the values that are not the bits of float() and a cast.
The floor is to read every byte of the file and to write the array. ours_cached maps what an earlier process
has kept and adds up every value, for without a look at them nothing is read (`again`: as in_memory, when this
process has done so once); in_memory adds up an array that is there already. A library that is not installed,
or takes longer than `--limit` seconds, is left out.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import mmap
import os
import platform
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MB = 1 << 20


# ---- the files -----------------------------------------------------------------------------------
def nt3(rng: random.Random) -> str:
    return "0.0" if rng.random() < 0.515 else f"{rng.lognormvariate(9, 2):.12g}"


def p1b1(rng: random.Random) -> str:
    return "0.0" if rng.random() < 0.5 else f"{rng.lognormvariate(1, 1.5):.3g}"


def p1b2(rng: random.Random) -> str:
    return str(rng.randrange(10) if rng.random() < 0.88 else rng.randrange(10, 100))


def tall(rng: random.Random) -> str:
    return f"{rng.random():.6f}"


SHAPES: dict[str, tuple[int, int, Callable[[random.Random], str]]] = {
    "nt3": (1_120, 60_484, nt3),
    "p1b1": (2_700, 60_484, p1b1),
    "p1b2": (3_000, 28_206, p1b2),
    "tall": (900_100, 40, tall),
}


def make(folder: Path, shape: str, scale: float) -> Path:
    """A file of random cells, drawn from a pool of a million, and beside it what float() makes of each."""
    rows, columns, cell = SHAPES[shape]
    rows = max(2, round(rows * scale))
    rng = random.Random(shape)
    pool = [cell(rng) for _ in range(1_000_000)]
    path = folder / f"{shape}.csv"
    wanted = np.lib.format.open_memmap(folder / f"{shape}.npy", "w+", np.float32, (rows, columns))
    with path.open("w") as file:
        for row in range(rows):
            cells = rng.choices(pool, k=columns)
            file.write(",".join(cells) + "\n")
            wanted[row] = np.array([float(text) for text in cells])
    return path


# ---- the methods ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class Job:
    path: Path
    columns: int
    threads: int


def pandas(job: Job) -> Any:
    import pandas as pd

    return pd.read_csv(job.path, header=None).to_numpy(dtype=np.float32)


def pandas_chunked(job: Job) -> Any:
    import pandas as pd

    # The study's chunks have more rows than any of its files, so what it changed is low_memory.
    parts = pd.read_csv(job.path, header=None, chunksize=2_000_000, low_memory=False)
    return pd.concat(parts, ignore_index=True).to_numpy(dtype=np.float32)


def pandas_float32(job: Job) -> Any:
    import pandas as pd

    return pd.read_csv(job.path, header=None, dtype=np.float32, na_filter=False).to_numpy()


def pandas_pyarrow(job: Job) -> Any:
    import pandas as pd

    return pd.read_csv(job.path, header=None, engine="pyarrow").to_numpy(dtype=np.float32)


def dask(job: Job) -> Any:
    import dask.dataframe as dd

    with job.path.open("rb") as file:
        sample = max(1 << 18, 2 * len(file.readline()) + 1)
    frame = dd.read_csv(job.path, header=None, dtype=np.float64, sample=sample)
    return frame.compute(scheduler="threads", num_workers=job.threads).to_numpy(dtype=np.float32)


def polars(job: Job) -> Any:
    import polars as pl

    schema = {f"c{k}": pl.Float32 for k in range(job.columns)}
    return pl.read_csv(job.path, has_header=False, schema=schema).to_numpy(order="c")


def pyarrow(job: Job) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    pa.set_cpu_count(job.threads)
    names = [f"c{k}" for k in range(job.columns)]
    table = csv.read_csv(
        job.path,
        read_options=csv.ReadOptions(column_names=names, block_size=256 * MB, use_threads=job.threads > 1),
        convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float32())),
    )
    out = np.empty((table.num_rows, job.columns), np.float32)
    for k, column in enumerate(table.columns):
        out[:, k] = column.to_numpy()
    return out


def loadtxt(job: Job) -> Any:
    return np.loadtxt(job.path, delimiter=",", dtype=np.float32, comments=None, ndmin=2)


def ours_numba(job: Job) -> Any:
    from joulelab.data import wide_csv

    return wide_csv.read(job.path, threads=job.threads, kernel="numba")


def ours_native(job: Job) -> Any:
    from joulelab.data import wide_csv

    return wide_csv.read(job.path, threads=job.threads, kernel="native")


def ours_cached(job: Job) -> Any:
    from joulelab.data import cache

    found = cache.read(job.path, threads=job.threads)
    found.sum()
    return found


def ours_cached_again(job: Job) -> Any:
    return ours_cached(job)


def in_memory(job: Job) -> Any:
    return ARRAYS[job.path].sum() if job.path in ARRAYS else None


def floor(job: Job) -> Any:
    with job.path.open("rb") as file:
        words = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    words = words[: len(words) // 8 * 8].view(np.uint64)
    np.maximum.reduce(words)
    rows = len(np.load(job.path.with_suffix(".npy"), mmap_mode="r"))
    out = np.empty((rows, job.columns), np.float32)
    out.fill(0)
    return out


LIBRARIES = (pandas, pandas_chunked, pandas_float32, pandas_pyarrow, dask, polars, pyarrow, loadtxt)
METHODS: dict[str, Callable[[Job], Any]] = {
    method.__name__: method
    for method in (*LIBRARIES, ours_numba, ours_native, ours_cached, ours_cached_again, in_memory, floor)
}
PARSE_NOTHING = ("floor", "in_memory")
SECOND_LOOK = ("in_memory", "ours_cached_again")  # what is measured has been looked at before
ARRAYS: dict[Path, Any] = {}
TWO_THREADS = "ours_native_2"
MOST_TOUCHED = 5 << 30


# ---- one reading, in a process of its own --------------------------------------------------------
def peak_bytes() -> int:
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return int(line.split()[1]) * 1024


def touched(size: int) -> None:
    """Have so much memory, write to each page of it, and give it back."""
    np.empty(size, np.uint8)[:: mmap.PAGESIZE] = 1
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew


def used() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def child(method: str, path: Path) -> None:
    threads = 2 if method == TWO_THREADS else 1
    read = METHODS[method.removesuffix("_2")]
    wanted = np.load(path.with_suffix(".npy"), mmap_mode="r")
    if method != "floor":
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as small:  # imports and compiles
            small.write("1.5,2\n3,4\n")
            small.flush()
            read(Job(Path(small.name), 2, threads))
    if method == "in_memory":
        ARRAYS[path] = np.load(path.with_suffix(".npy"))
    if method in SECOND_LOOK:
        read(Job(path, wanted.shape[1], threads))
    # The libraries take up to ten times the result. What is given back stays warm for about two seconds.
    most = 10 if METHODS[method.removesuffix("_2")] in LIBRARIES else 1.5
    touched(min(round(most * wanted.nbytes), MOST_TOUCHED))
    before_bytes, before_s, before_ns = peak_bytes(), used(), time.monotonic_ns()
    found = read(Job(path, wanted.shape[1], threads))
    time_s, cpu_s = (time.monotonic_ns() - before_ns) / 1e9, used() - before_s
    bytes_more = peak_bytes() - before_bytes
    wrong = None
    if method not in PARSE_NOTHING:
        pairs = zip(found, wanted, strict=True)
        wrong = sum(int((a.view(np.uint32) != b.view(np.uint32)).sum()) for a, b in pairs)
    print(json.dumps({"cpu_s": cpu_s, "time_s": time_s, "peak_bytes": bytes_more, "wrong": wrong}))


# ---- all of them ---------------------------------------------------------------------------------
def ask(method: str, path: Path, *, limit_s: float) -> dict[str, Any] | None:
    """One reading; None when the library is absent, fails or is too slow, which is said on stderr."""
    environment = {
        **os.environ,
        "POLARS_MAX_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "JOULELAB_CACHE": str(path.with_suffix(".cache")),
    }
    command = [sys.executable, __file__, "--child", method, str(path)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, check=False, timeout=limit_s
        )
    except subprocess.TimeoutExpired:
        print(f"{method} on {path.stem}: not ready after {limit_s:g} s", file=sys.stderr)
        return None
    if done.returncode:
        print(f"{method} on {path.stem}: {done.stderr.strip().splitlines()[-1][:150]}", file=sys.stderr)
        return None
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer | {"load": os.getloadavg()[0]}


def measure(
    path: Path, methods: list[str], *, rounds: int, limit_s: float
) -> dict[str, list[dict[str, Any]]]:
    """Every method in turn in every round, so that a busy minute of the machine falls on all of them."""
    rows: dict[str, list[dict[str, Any]]] = {}
    if {"ours_cached", "ours_cached_again"} & set(methods):
        ask("ours_cached", path, limit_s=limit_s)  # which makes what the others find
    for _ in range(rounds):
        for method in list(methods):
            row = ask(method, path, limit_s=limit_s)
            if row:
                rows.setdefault(method, []).append(row)
            else:
                methods.remove(method)  # once is enough to know it
    return rows


def table(shape: str, size: int, rows: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    def middle(method: str, what: str) -> float:
        return float(statistics.median(row[what] for row in rows[method]))

    rivals = [middle(method.__name__, "cpu_s") for method in LIBRARIES if method.__name__ in rows]
    yield f"\n{shape}: {size / 1e6:.0f} MB"
    heads = [
        "n",
        "CPU s",
        "from",
        "to",
        "wall s",
        "MB/s",
        "peak MB",
        "wrong",
        "x pandas",
        "x best",
        "x floor",
    ]
    yield f"{'method':16}" + "".join(f"{head:>9}" for head in heads)
    for method, readings in rows.items():
        cpu_s = [row["cpu_s"] for row in readings]
        own = statistics.median(cpu_s)
        peak_mb, wrong = middle(method, "peak_bytes") / 1e6, readings[0]["wrong"]
        misread = "-" if wrong is None else wrong
        line = f"{method:16}{len(readings):9}{own:9.4f}{min(cpu_s):9.4f}{max(cpu_s):9.4f}"
        line += f"{middle(method, 'time_s'):9.4f}{size / own / 1e6:9.0f}{peak_mb:9.0f}{misread:>9}"
        line += f"{middle('pandas', 'cpu_s') / own:9.1f}" if "pandas" in rows else f"{'':9}"
        line += f"{min(rivals) / own:9.1f}" if rivals else f"{'':9}"
        line += f"{own / middle('floor', 'cpu_s'):9.1f}" if "floor" in rows else ""
        yield line
    for method in ("ours_cached", "ours_cached_again"):
        if {method, "in_memory"} <= set(rows):
            ratio = middle(method, "time_s") / middle("in_memory", "time_s")
            yield f"{method}: mapped and added up in {ratio:.2f} of the time that adding up takes in memory"
    if {"ours_native", TWO_THREADS} <= set(rows):
        gain = middle("ours_native", "time_s") / middle(TWO_THREADS, "time_s")
        load = f"a load of {middle(TWO_THREADS, 'load'):.1f} on {os.cpu_count()} cores"
        yield f"two threads: {gain:.2f} x the speed of one by the clock, at {load}"


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = {line.split(":")[1].strip() for line in lines if line.startswith(("model name", "CPU part"))}
    return ", ".join(sorted(names)) or platform.machine()


def versions() -> dict[str, str]:
    from importlib import metadata

    found = {}
    for name in ("numpy", "numba", "pandas", "polars", "pyarrow", "dask"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one reading")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--methods", default=",".join([*METHODS, TWO_THREADS]))
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child[0], Path(given.child[1]))
        return
    result: dict[str, Any] = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),  # noqa: TID251  a date
        "machine": machine(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "libraries": versions(),
        "scale": given.scale,
        "shapes": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        for shape in given.shapes.split(","):
            path = make(Path(folder), shape, given.scale)
            rows = measure(path, given.methods.split(","), rounds=given.rounds, limit_s=given.limit)
            size = path.stat().st_size
            print("\n".join(table(shape, size, rows)), flush=True)
            result["shapes"][shape] = {"bytes": size, "readings": rows}
            path.unlink()
            shutil.rmtree(path.with_suffix(".cache"), ignore_errors=True)
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")
        print(f"written: {given.out}")


if __name__ == "__main__":
    main()
