# SPDX-License-Identifier: Apache-2.0
"""What a window around every training step costs on a real GPU, beside Zeus and CodeCarbon where they import.

    python benchmarks/gpu_step.py [--rounds 12] [--steps 40] [--batch 64] [-o FILE.json]

ResNet-50 (torchvision's), bf16, synthetic images on the card. In each round every way of metering runs one
block of steps, in an order that turns from round to round, so that a warming card falls on all of them. Ways:
  bare        no synchronisation: what the loop does when nobody looks
  synchronise the device is awaited at both ends of every step, as every meter here does
  joulelab    a window around every step
  zeus        begin_window and end_window around every step (two counter reads in this process)
  codecarbon  start_task and stop_task around every step
Added time is against `synchronise` of the same round: what a meter adds to the two waits that any must make.

An eager loop varies by several per cent from block to block, so a small cost is looked for apart: the same
step as one CUDA graph, every second one metered, neighbours compared, both awaited at both ends.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent / "probes"))

import sampler
import tools

from joulelab import Meter

Block = Callable[[int], float]


def training_step(batch: int) -> Callable[[], None]:
    import torchvision

    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (batch,), device="cuda")
    torch.backends.cudnn.benchmark = True

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    return step


def graph_step(batch: int) -> Callable[[], None]:
    """The same training step as one CUDA graph: the processor only starts it."""
    import torchvision

    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (batch,), device="cuda")

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            optimizer.zero_grad(set_to_none=True)
            step()
    torch.cuda.current_stream().wait_stream(side)
    optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def paired(step: Callable[[], None], tool: tools.Pair, pairs: int) -> list[float]:
    """Added time of each metered step against its neighbour, in per cent."""
    begin, end, _ = tool

    def once(*, metered: bool) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        if metered:
            begin()
        else:
            torch.cuda.synchronize()
        step()
        if metered:
            end()
        else:
            torch.cuda.synchronize()
        return time.perf_counter() - start

    for _ in range(20):
        once(metered=True)
    ratios = []
    for number in range(pairs):
        # Who goes first changes, so that a slow drift of the clocks falls on both.
        first_metered = number % 2 == 0
        first, second = once(metered=first_metered), once(metered=not first_metered)
        metered, bare = (first, second) if first_metered else (second, first)
        ratios.append((metered / bare - 1) * 100)
    return ratios


def timed(
    step: Callable[[], None], steps: int, begin: Callable[[], object], end: Callable[[], object]
) -> float:
    """Seconds a step, over a block."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        begin()
        step()
        end()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / steps


def awaited(tool: tools.Pair) -> tools.Pair:
    """A tool that does not wait for the device, with the wait that makes its figures those of the step."""
    begin, end, close = tool

    def begin_awaited() -> None:
        torch.cuda.synchronize()
        begin()

    def end_awaited() -> None:
        torch.cuda.synchronize()
        end()

    return begin_awaited, end_awaited, close


def sampler_share(step: Callable[[], None], seconds: float) -> dict[str, float]:
    """Of one core, while a training with a window around every step runs."""
    with Meter() as meter, ThreadPoolExecutor(1) as aside:
        pid = meter.open().pid
        time.sleep(5.0)  # the first seconds, in which sensors are compared, cost more
        watched = aside.submit(sampler.share_of_a_core, pid, seconds)
        while not watched.done():
            with meter.window("step"):
                step()
        return {"core_percent": 100 * watched.result(), "memory_mb": sampler.memory_mb(pid)}


def ways() -> tuple[dict[str, tools.Pair], dict[str, str]]:
    """Each way as begin, end, close; and why some are not here."""
    found: dict[str, tools.Pair] = {
        "bare": (lambda: None, lambda: None, lambda: None),
        "synchronise": (torch.cuda.synchronize, torch.cuda.synchronize, lambda: None),
        "joulelab": tools.joulelab(synchronize=True),
    }
    missing = {}
    for name in ("zeus", "codecarbon"):
        try:
            found[name] = tools.zeus(synchronize=True) if name == "zeus" else awaited(tools.codecarbon())
        except Exception as error:  # noqa: BLE001  a peer that does not start is named, and left out
            missing[name] = f"{type(error).__name__}: {error}"
    return found, missing


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--graph-batch", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    step = training_step(given.batch)
    for _ in range(20):
        step()
    metered, missing = ways()
    for begin, end, _ in metered.values():
        timed(step, 5, begin, end)
    names = list(metered)
    rows: dict[str, list[float]] = {name: [] for name in names}
    for number in range(given.rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            begin, end, _ = metered[name]
            # CodeCarbon takes tenths of a second a task: fewer steps, or it alone would take minutes.
            steps = max(5, given.steps // 8) if name == "codecarbon" else given.steps
            rows[name].append(timed(step, steps, begin, end))
    graph = graph_step(given.graph_batch)
    graph_s = timed(graph, 20, lambda: None, lambda: None)
    rare = {
        name: paired(graph, metered[name], given.pairs)
        for name in ("synchronise", "joulelab", "zeus")
        if name in metered
    }
    for _, _, close in metered.values():
        close()
    share = sampler_share(step, 15.0)
    print(f"sampler: {share['core_percent']:.2f} % of one core, {share['memory_mb']:.1f} MB")
    print(
        f"{torch.cuda.get_device_name()}, ResNet-50 bf16 batch {given.batch}, "
        f"{given.rounds} rounds of {given.steps} steps"
    )
    for name, times in rows.items():
        added = [(t / c - 1) * 100 for t, c in zip(times, rows["synchronise"], strict=True)]
        low, high = min(added), max(added)
        error = 2.2 * statistics.stdev(added) / len(added) ** 0.5  # 95 % for about a dozen rounds
        print(
            f"{name:12} {statistics.median(times) * 1e3:8.3f} ms a step, "
            f"added {statistics.fmean(added):+8.3f} % +- {error:.3f} "
            f"(median {statistics.median(added):+.3f}, {low:+.2f} .. {high:+.2f})"
        )
    print(f"as a CUDA graph of {graph_s * 1e3:.2f} ms, {given.pairs} pairs of neighbours:")
    for name, added in rare.items():
        mean, error = statistics.fmean(added), 1.96 * statistics.stdev(added) / len(added) ** 0.5
        print(f"{name:12} added {mean:+8.4f} % +- {error:.4f} (median {statistics.median(added):+.4f})")
    for name, why in missing.items():
        print(f"{name:12} not run: {why[:200]}")
    if given.out:
        about = {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),  # noqa: TID251  a date
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "rounds": given.rounds,
            "steps": given.steps,
            "batch": given.batch,
        }
        given.out.write_text(
            json.dumps(
                {
                    **about,
                    "seconds_a_step": rows,
                    "sampler": share,
                    "graph_step_s": graph_s,
                    "graph_added_percent": rare,
                    "missing": missing,
                },
                indent=1,
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
