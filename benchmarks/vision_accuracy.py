# SPDX-License-Identifier: Apache-2.0
"""Joules to a real accuracy: ResNet-18 on 20,000 real pictures of CIFAR-10 as JPEG, 5,000 held out.

    python benchmarks/vision_accuracy.py --data CIFAR.zip [--target 0.9] [--seconds 400] [-o FILE.json]
        [--parts path,fast,paper,batches,factors] [--batches 128,512,2048] [-n 5] [--smoke]

--data is a zip, or a folder, with train/CLASS/ and val/CLASS/ below its top. What is asked, in this order:
  path     JPEG through the cache to the device: pictures a second, and the share of training spent waiting
  fast     how many epochs the fast recipe needs (the first of --epochs that reaches the target), then n seeds
  paper    the usual recipe: epochs to the target in bf16, then as many seeds in fp32 as the time suffices for
  batches  joules and epochs to the target by batch size, the fast recipe, n seeds each, seeds in turn
  factors  joules a picture in fp32 and what each setting takes off it, so that the gain can be taken apart
Energy to the target is that of the whole repeat: loading, making the network, training and every evaluation
until the target is reached. One short run of each shape before it (choice of algorithms) is left out.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import torch
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
from joulelab.data import image_cache
from joulelab.workloads.picture_augment import Normal, Shifted
from joulelab.workloads.picture_source import Source, Streamed

NETWORK = {"depth": 18, "stem": "cifar", "image_size": 32}
TODAY = {"precision": "bf16", "memory_format": "channels_last"}
FAST = {"recipe": "fast", "batch_size": 512, "learning_rate": 0.2, "evaluate_mirrored": True, **TODAY}
PAPER = {"recipe": "imagenet", "batch_size": 256, "learning_rate": 0.1}
FP32 = {"precision": "fp32", "memory_format": "contiguous"}
PART_SHARE = 0.35  # of the time, that one part may use before the others have had their turn


class Bench:
    """One call of this program: what was asked, what was found, and the time that is left."""

    def __init__(self, given: argparse.Namespace, data: Path, meter: Meter) -> None:
        self.given = given
        self.data = data
        self.meter = meter
        self.box = Box(given.seconds)
        self.found: dict[str, Any] = {}
        self.notes: list[str] = []
        self.target = f"val_accuracy >= {given.target:g}"
        self.epochs = list(given.epochs)
        self.cost_s: dict[str, float] = {}  # of the last run of a kind
        self.network = dict(NETWORK)

    def train(self, kind: str, seed: int, **asked: Any) -> dict[str, Any] | None:
        """One repeat; None where the time does not suffice for another of its kind."""
        if self.box.left_s() < 1.15 * self.cost_s.get(kind, 0.0):
            self.notes.append(f"{kind}: seed {seed} left out for want of time")
            return None
        made = setting(data=str(self.data), **{**self.network, **asked})
        kept = Kept(self.meter)
        curve: list[float | None] = []
        began_s = time.monotonic()
        with knobs_on(made):
            done = repeat(
                made, meter=kept, seed=seed, on_epoch=lambda line: curve.append(line.get("val_accuracy"))
            )
        self.cost_s[kind] = time.monotonic() - began_s
        train = done.phases["train"]
        row = {
            "kind": kind,
            "seed": seed,
            "batch_size": made.knobs["batch_size"],
            "epochs_asked": made.knobs["epochs"],
            "reached": done.reached,
            "valid": done.valid,
            "reason": done.reason,
            "epochs": done.epochs,
            "samples": done.samples,
            "energy_j": done.total.energy_j,
            "energy_error_j": done.total.energy_error_j,
            "time_s": done.total.time_s,
            "train_j": train.energy_j,
            "train_j_per_image": train.energy_j / done.samples if train.energy_j else None,
            "images_per_s": done.samples / train.time_s,
            "waiting_share": (done.waiting_s or 0.0) / train.time_s,
            "val_accuracy": done.metrics.get("val_accuracy"),
            "curve": curve,
        }
        settled()
        say(
            f"{kind:28} seed {seed}: {'' if done.reached else 'not '}reached at epoch {done.epochs} of "
            f"{made.knobs['epochs']}, {row['val_accuracy']}, {done.total.energy_j or 0:.0f} J, "
            f"{done.total.time_s:.1f} s, {row['images_per_s']:.0f}/s {done.reason}"
        )
        return row

    def warm(self, **asked: Any) -> None:
        """An epoch that counts for nothing: algorithms are chosen, memory is taken."""
        made = setting(data=str(self.data), **{**self.network, **asked, "epochs": 1, "target": ""})
        with knobs_on(made):
            repeat(made, meter=Kept(self.meter))

    # ---- the parts -----------------------------------------------------------------------------------------

    def path(self) -> None:
        began_s = time.monotonic()
        train = image_cache.open_images(self.data / "train", size=32)
        image_cache.open_images(self.data / "val", size=32)
        built_s = time.monotonic() - began_s
        began_s = time.monotonic()
        train = image_cache.open_images(self.data / "train", size=32)
        opened_s = time.monotonic() - began_s
        found = {
            "jpeg": len(train.labels) + 5000,
            "decode_images_per_s": (len(train.labels) + 5000) / built_s,
            "decode_s": built_s,
            "open_again_s": opened_s,
            "open_again_images_per_s": len(train.labels) / opened_s,
        }
        pictures, labels = torch.from_numpy(train.pixels), torch.from_numpy(train.labels)
        for name, source in (
            ("resident", Source(pictures, labels, device=DEVICE)),
            ("streamed", Streamed(pictures, labels, device=DEVICE)),
        ):
            found[f"{name}_images_per_s"] = spread([self._feed(source) for _ in range(4)][1:])
        self.found["path"] = found

    def _feed(self, source: Source) -> float:
        """Pictures a second, shifted, mirrored and normalised on the device, with nothing that eats them."""
        normal = Normal(device=DEVICE, dtype=torch.float32, channels_last=True)
        order = torch.randperm(len(source))
        draws = Shifted(len(source), size=32, hole=8, generator=torch.Generator(DEVICE).manual_seed(0))
        self._wait()
        began_s = time.monotonic()
        for batch in source.batches(order, 512):
            draws.finish(normal(draws.cut(batch.pictures, batch.rows, batch.part)), batch.part)
        self._wait()
        return len(source) / (time.monotonic() - began_s)

    def _wait(self) -> None:
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()

    def fast(self) -> None:
        self.warm(**FAST)
        ladder = []
        for epochs in self.epochs:
            row = self.train("fast, search", 100, **FAST, epochs=epochs, target=self.target)
            if row is None:
                break
            ladder.append(row)
            if row["reached"]:
                self.epochs = [epochs]
                break
        self.found["search"] = ladder
        self.found["fast"] = self._seeds("fast", self.given.n, **FAST, epochs=self.epochs[-1])

    def _seeds(self, kind: str, count: int, **asked: Any) -> list[dict[str, Any]]:
        rows = (self.train(kind, seed, **asked, target=self.target) for seed in range(count))
        return [row for row in rows if row is not None]

    def paper(self) -> None:
        quick = {**PAPER, **TODAY}
        self.warm(**quick)
        chosen = self.given.paper_epochs[-1]
        tried = []
        for epochs in self.given.paper_epochs:
            row = self.train("paper, bf16", 0, **quick, epochs=epochs, target=self.target)
            if row is None:
                break
            tried.append(row)
            if row["reached"]:
                chosen = epochs
                break
        self.found["paper_bf16"] = tried
        full = {**PAPER, **FP32, "epochs": chosen}
        self.warm(**full)
        if tried and tried[-1]["reached"]:
            # As many epochs as in bf16, at the speed of the warm-up: said before it is begun.
            self.found["paper_fp32"] = self._seeds("paper, fp32", self.given.paper_n, **full)
            more = (self.train("paper, bf16", s, **quick, epochs=chosen, target=self.target) for s in (1, 2))
            self.found["paper_bf16"] += [row for row in more if row is not None]

    def batches(self) -> None:
        rows: dict[int, list[dict[str, Any]]] = {size: [] for size in self.given.batches}
        for size in rows:
            self.warm(**{**FAST, "batch_size": size})
        for seed in range(self.given.n):
            for size, kept in rows.items():
                asked = {**FAST, "batch_size": size, "epochs": self.epochs[-1]}
                row = self.train(f"fast, batch {size}", seed, **asked, target=self.target)
                if row is not None:
                    kept.append(row)
        self.found["batches"] = {str(size): kept for size, kept in rows.items()}

    def factors(self) -> None:
        """Epochs of one length, each setting changed alone from the one above it."""
        steps: dict[str, dict[str, Any]] = {
            "fp32, batch 256": {**PAPER, **FP32},
            "tf32": {**PAPER, **FP32, "precision": "tf32"},
            "bf16": {**PAPER, **FP32, "precision": "bf16"},
            "bf16, channels_last": {**PAPER, **TODAY},
            "bf16, channels_last, batch 512": {**PAPER, **TODAY, "batch_size": 512},
            "fast recipe, batch 512": FAST,
            "fast recipe, batch 512, compile": {**FAST, "compile": "on"},
        }
        found = {}
        for name, asked in steps.items():
            if DEVICE.type != "cuda" and "tf32" in name:
                continue
            if self.box.left_s() < (50.0 if "compile" in name else 12.0):
                self.notes.append(f"factors: {name} left out for want of time")
                continue
            made = setting(data=str(self.data), **{**self.network, **asked, "epochs": 4})
            kept = Kept(self.meter)
            with knobs_on(made):
                done = repeat(made, meter=kept)
            each = done.samples / done.epochs
            windows = kept.windows["train"][1:]
            found[name] = {
                "j_per_image": spread([w.energy_j / each for w in windows if w.energy_j is not None]),
                "images_per_s": spread([each / w.time_s for w in windows]),
                "waiting_share": (done.waiting_s or 0.0) / done.phases["train"].time_s,
                "first_epoch_s": kept.windows["train"][0].time_s,
                "first_epoch_j": kept.windows["train"][0].energy_j,
            }
            settled()
            say(f"{name:34} {found[name]['j_per_image']} {found[name]['images_per_s']}")
        self.found["factors"] = found

    # ---- what came of it -----------------------------------------------------------------------------------

    def text(self) -> str:
        lines = [f"target: {self.target}; ResNet-18, stem for CIFAR, 20,000 training pictures"]
        if "path" in self.found:
            path = self.found["path"]
            lines += ["", "data path (pictures a second):"]
            lines += [
                f"  {name:28} {shown(value) if isinstance(value, dict) else f'{value:.4g}'}"
                for name, value in path.items()
            ]
        lines += [
            "",
            f"{'to the target':28} {'reached':>8} {'epochs':>14} {'J':>16} {'s':>14} {'waiting':>8}",
        ]
        groups = {"fast": self.found.get("fast", []), "paper, fp32": self.found.get("paper_fp32", [])}
        groups["paper, bf16"] = self.found.get("paper_bf16", [])
        groups |= {f"fast, batch {size}": rows for size, rows in self.found.get("batches", {}).items()}
        for name, rows in groups.items():
            lines += [self._line(name, rows)] if rows else []
        lines += ["", *self._gain()]
        for name, row in self.found.get("factors", {}).items():
            lines.append(
                f"  {name:34} {shown(row['j_per_image'])} J/image, {shown(row['images_per_s'])} images/s, "
                f"waiting {100 * row['waiting_share']:.2f} %, first epoch {row['first_epoch_s']:.1f} s"
            )
        return "\n".join([*lines, *self.notes])

    def _line(self, name: str, rows: list[dict[str, Any]]) -> str:
        good = [row for row in rows if row["reached"]]
        waiting = max((row["waiting_share"] for row in rows), default=0.0)
        return (
            f"{name:28} {f'{len(good)}/{len(rows)}':>8} {shown(spread([r['epochs'] for r in good])):>14} "
            f"{shown(spread([r['energy_j'] for r in good])):>16} "
            f"{shown(spread([r['time_s'] for r in good])):>14} {100 * waiting:>6.2f} %"
        )

    def _gain(self) -> list[str]:
        means = {
            name: spread([r["energy_j"] for r in self.found.get(name, []) if r["reached"]])["mean"]
            for name in ("fast", "paper_fp32")
        }
        lines = []
        if all(means.values()):
            lines.append(
                f"fewer joules to the target: {means['paper_fp32'] / means['fast']:.2f} x "
                f"({means['paper_fp32']:.0f} J in fp32 by the usual recipe, {means['fast']:.0f} J)"
            )
            pictures = {
                name: spread([r["samples"] for r in self.found[name] if r["reached"]])["mean"]
                for name in means
            }
            each = {
                name: spread([r["train_j_per_image"] for r in self.found[name] if r["reached"]])["mean"]
                for name in means
            }
            lines.append(
                f"of that: pictures to the target {pictures['paper_fp32'] / pictures['fast']:.2f} x, "
                f"joules a picture in training {each['paper_fp32'] / each['fast']:.2f} x; "
                "the rest is evaluation and load"
            )
        return lines


def unpacked(data: Path, to: Path) -> Path:
    """The folder that holds train and val; a zip is unpacked first."""
    if data.is_file():
        with zipfile.ZipFile(data) as packed:
            packed.extractall(to)
        data = to
    for folder in (data, *sorted(data.glob("*"))):
        if (folder / "train").is_dir():
            return folder
    raise SystemExit(f"{data}: no folder train below it")


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--target", type=float, default=0.9)
    parser.add_argument("--seconds", type=float, default=400.0, help="no run is begun that would end later")
    parser.add_argument("--parts", default="path,fast,paper,batches,factors")
    parser.add_argument("--batches", type=numbers, default=[128, 512, 2048])
    parser.add_argument("--epochs", type=numbers, default=[16, 20, 25, 32, 40], help="fast recipe")
    parser.add_argument("--paper-epochs", type=numbers, default=[45, 75], help="usual recipe")
    parser.add_argument("--paper-n", type=int, default=2, help="seeds of the usual recipe in fp32")
    parser.add_argument("-n", type=int, default=5, help="seeds")
    parser.add_argument("--smoke", action="store_true", help="a narrow network, to try the script")
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    devices = ("nvidia",) if DEVICE.type == "cuda" else ()
    with tempfile.TemporaryDirectory() as folder, Meter(devices=devices) as meter:
        bench = Bench(given, unpacked(given.data, Path(folder)), meter)
        if given.smoke:
            bench.network |= {"width": 4}
        for name in given.parts.split(","):
            getattr(bench, name)()
            write(given.out, {**machine(), "arguments": vars(given), **bench.found, "notes": bench.notes})
        print(bench.text())
        write(given.out, {**machine(), "arguments": vars(given), **bench.found, "notes": bench.notes})


if __name__ == "__main__":
    main()
