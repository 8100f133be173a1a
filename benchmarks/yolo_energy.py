# SPDX-License-Identifier: Apache-2.0
"""What an image costs a YOLOv5 in training: joules and images a second, by size, precision and batch.

    python benchmarks/yolo_energy.py [--seconds 3] [--repeats 3] [--small] [-o FILE.json]

Pictures are noise that lies on the device, 640 px wide, with 30 made-up boxes each and 60 kinds; mosaic and
colours are done there too. Every row is a trial through the package's own loop and meter: a pass that warms
up and is left out, then `--repeats` passes of about `--seconds` from fresh weights. Energy and time are those
of training, without loading and building the network. The spread is half of the 95 % interval of the mean.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import json
import statistics
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import joulelab
from joulelab.workloads import RECIPES

# Multiply-adds of a forward pass over one picture of 640 px, in thousand millions; training is three of them.
GMAC = {"n": 2.191, "s": 8.131, "m": 24.307, "l": 54.325, "x": 102.509}
# Operations a second to guess how many pictures fill the time; a wrong guess makes a row longer or shorter.
GUESS = {"fp32": 2e13, "tf32": 5e13, "bf16": 8e13, "cpu": 3e10}
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365}
MAKING_BATCHES = 2  # of an epoch


@dataclass(frozen=True)
class Row:
    size: str
    batch: int
    precision: str
    augment: str = "mosaic"
    memory_format: str = ""  # where the loop has that knob


def rows(given: argparse.Namespace) -> list[Row]:
    if given.small:
        return [Row("n", 4, "fp32"), Row("n", 8, "fp32"), Row("n", 8, "fp32", augment="none")]
    last = "channels_last" if "memory_format" in RECIPES["yolo"].knobs else ""
    plan = [Row(size, 64, "fp32") for size in GMAC]
    plan += [Row(size, 64, "bf16", memory_format=last) for size in GMAC]
    plan += [Row("s", batch, "bf16", memory_format=last) for batch in (32, 128, 256, 512)]
    plan += [Row("s", 64, "tf32"), Row("s", 64, "bf16", augment="none", memory_format=last)]
    if last:
        plan.append(Row("s", 64, "bf16"))
    return plan


def measure(row: Row, *, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    side = 64 if given.small else 640
    guess = GUESS["cpu" if given.small or not torch.cuda.is_available() else row.precision]
    rate = guess / (6e9 * GMAC[row.size] * (side / 640) ** 2)
    bank = MAKING_BATCHES * row.batch
    knobs: dict[str, Any] = {
        "batch_size": row.batch,
        "precision": row.precision,
        "epochs": max(1, round(given.seconds * rate / bank)),
    }
    if row.memory_format:
        knobs["memory_format"] = row.memory_format
    spec = joulelab.TrialSpec(
        workload="yolo",
        parameters={
            "size": row.size,
            "source": "device",
            "scale": bank / 2048,
            "image_size": side,
            "augment": row.augment,
        },
        knobs=knobs,
        repeats=given.repeats,
        warmup=1,
    )
    record = joulelab.run(spec, out=folder / spec.folder_name(), launcher="inline")
    answer: dict[str, Any] = {**asdict(row), "image_size": side, "state": record.state}
    if torch.cuda.is_available():
        answer["memory_gb"] = torch.cuda.max_memory_allocated() / 1e9
        torch.cuda.reset_peak_memory_stats()
    if record.state != "done" or not record.result or not record.result.valid:
        told = record.result.reason if record.result else ""
        answer["reason"] = record.failure.get("reason") or told or "its figures are not valid"
        return answer
    repeats = [repeat for repeat in record.result.repeats if not repeat.warmup]
    answer["images"] = [repeat.samples for repeat in repeats]
    answer["source"] = repeats[0].phases["train"].source
    answer["time_s"] = [repeat.phases["train"].time_s for repeat in repeats]
    answer["energy_j"] = [repeat.phases["train"].energy_j for repeat in repeats]
    answer["energy_error_j"] = [repeat.phases["train"].energy_error_j for repeat in repeats]
    return answer


def line(answer: dict[str, Any]) -> str:
    name = f"{answer['size']:<2}{answer['batch']:>5}  {answer['precision']:<5}{answer['augment']:<8}"
    name += f"{answer['memory_format']:<14}"
    if "reason" in answer or None in answer["energy_j"]:
        return name + answer.get("reason", "no energy: see joulelab doctor").splitlines()[0]
    each = [joules / images for joules, images in zip(answer["energy_j"], answer["images"], strict=True)]
    rate = [images / seconds for images, seconds in zip(answer["images"], answer["time_s"], strict=True)]
    power = sum(answer["energy_j"]) / sum(answer["time_s"])
    text = f"{statistics.mean(each):10.4f}{spread(each):8}{statistics.mean(rate):10.1f}{spread(rate):8}"
    return f"{name}{text}{power:8.0f}{answer.get('memory_gb', 0):8.1f}  n = {len(each)}, {answer['source']}"


def spread(values: list[float]) -> str:
    if len(values) not in STUDENT:
        return ""
    half = STUDENT[len(values)] * statistics.stdev(values) / len(values) ** 0.5
    return f" ±{100 * half / statistics.mean(values):.1f}%"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measured pass, about")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--small", action="store_true", help="a few settings of the smallest size, 64 px wide"
    )
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(f"{device}, torch {torch.__version__}, {dt.datetime.now(dt.UTC).date()}")  # noqa: TID251  a date
    print(f"{'':35}{'J/image':>10}{'':8}{'images/s':>10}{'':8}{'W':>8}{'GB':>8}")
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(given):
            answers.append(measure(row, given=given, folder=Path(folder)))
            print(line(answers[-1]), flush=True)
            gc.collect()  # a trial that ran out of memory leaves its tensors to the collector
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
    if given.out:
        about = {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),  # noqa: TID251  a date
            "device": device,
            "torch": torch.__version__,
            "arguments": {name: str(value) for name, value in vars(given).items()},
        }
        given.out.write_text(json.dumps({**about, "rows": answers}, indent=1) + "\n")
        print(f"written: {given.out}")


if __name__ == "__main__":
    main()
