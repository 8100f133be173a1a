# SPDX-License-Identifier: Apache-2.0
"""Joules to real accuracies: ResNet-18 on 20,000 real pictures of CIFAR-10 as JPEG, 5,000 held out.

    python benchmarks/vision_accuracy.py --data CIFAR.zip [--targets 0.84,0.9] [--seconds 400] [-o FILE.json]
        [--fast FILE.json|key=value,...] [--paper key=value,...] [--paper ...]
        [--parts path,fast,paper,batches,factors] [--batches 128,512,2048] [-n 5] [--smoke]

--data is a zip, or a folder, with train/CLASS/ and val/CLASS/ below its top. What is asked, in this order:
  path     JPEG through the cache to the device: pictures a second, and the share of training spent waiting
  fast     the fast recipe with what --fast says (parameters and knobs, or the file of vision_recipe.py), n
           seeds; where no epochs are said, first the shortest of --epochs that reaches the highest target
  paper    the usual recipe with what each --paper says: as published (decay 0.0001 and stairs), and with the
           decay usual for CIFAR, if nothing is said. Epochs by seeds in bf16; joules of an epoch in fp32; and
           as many whole trainings in fp32 as --paper-n says and the time suffices for
  batches  joules and epochs to the highest target by batch size, the fast recipe, n seeds each, in turn
  factors  joules a picture in fp32 and what each setting takes off it, so that the gain can be taken apart
Every training goes on to the highest target or to its end, and tells what it had cost at the first epoch that
reached each target: loading, making the network, training and every evaluation until then. One short run of
each shape before it (choice of algorithms, compiling) is left out. What was found is written after each
training. A training in fp32 takes long: its joules to a target are also calculated, epochs in bf16 by joules
of an epoch in fp32 and those of loading, and the table says which is which.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
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
from vision_search import best, reached
from vision_train import FAST, NETWORK, TODAY, in_words, numbers, pairs, train, unpacked

from joulelab import Meter
from joulelab.data import image_cache
from joulelab.workloads.picture_augment import Normal, Shifted
from joulelab.workloads.picture_source import Source, Streamed

PAPER = {"recipe": "imagenet", "batch_size": 256, "learning_rate": 0.1}
PAPERS = ["", "decay=0.0005"]  # as published; as usual for CIFAR
FP32 = {"precision": "fp32", "memory_format": "contiguous"}
SHORT = 5  # epochs in fp32, of which the first is left out


class Bench:
    """One call of this program: what was asked, what was found, and the time that is left."""

    def __init__(self, given: argparse.Namespace, data: Path, meter: Meter) -> None:
        self.given = given
        self.data = data
        self.meter = meter
        self.box = Box(given.seconds)
        self.found: dict[str, Any] = {"trainings": []}
        self.notes: list[str] = []
        self.top = max(given.targets)
        self.fast_asked = {**FAST, **given.fast}
        self.epoch_s: dict[str, float] = {}  # the longest of a kind
        self.network = dict(NETWORK)

    def save(self) -> None:
        write(self.given.out, {**machine(), "arguments": vars(self.given), **self.found, "notes": self.notes})

    def train(self, kind: str, seed: int, **asked: Any) -> dict[str, Any] | None:
        """One training to the highest target; None where the time does not suffice for one more."""
        if self.box.left_s() < 1.1 * asked["epochs"] * self.epoch_s.get(kind, 0.0):
            self.notes.append(f"{kind}: seed {seed} left out for want of time")
            return None
        words = {**self.network, **asked, "data": str(self.data), "target": f"val_accuracy >= {self.top}"}
        row = {"kind": kind, **train(words, meter=self.meter, seed=seed)}
        row["targets"] = {str(target): reached(row, target) for target in self.given.targets}
        self.epoch_s[kind] = max(self.epoch_s.get(kind, 0.0), row["wall_s"] / row["epochs"])
        self.found["trainings"].append(row)
        self.save()
        hits = [f"{target} at epoch {hit['epochs']}" for target, hit in row["targets"].items() if hit]
        say(
            f"{kind:32} seed {seed}: {', '.join(hits) or 'no target'} of {row['epochs_asked']}, "
            f"{best(row):.4f}, {row['energy_j'] or 0:.0f} J, {row['time_s']:.1f} s, "
            f"{row['images_per_s']:.0f}/s {row['reason']}"
        )
        return row

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.found["trainings"] if row["kind"] == kind]

    def kinds(self) -> list[str]:
        return list(
            dict.fromkeys(row["kind"] for row in self.found["trainings"] if "search" not in row["kind"])
        )

    def warm(self, **asked: Any) -> None:
        """An epoch that counts for nothing: algorithms are chosen, memory is taken, code is compiled."""
        asked = {**self.network, **asked, "data": str(self.data), "epochs": 1, "target": ""}
        row = train(asked, meter=self.meter, seed=0)
        self.found.setdefault("warm", []).append({"asked": in_words(asked), "wall_s": row["wall_s"]})

    # ---- the parts -----------------------------------------------------------------------------------------

    def path(self) -> None:
        began_s = time.monotonic()
        train = image_cache.open_images(self.data / "train", size=32)
        val = image_cache.open_images(self.data / "val", size=32)
        built_s = time.monotonic() - began_s
        began_s = time.monotonic()
        train = image_cache.open_images(self.data / "train", size=32)
        opened_s = time.monotonic() - began_s
        count = len(train.labels) + len(val.labels)
        found = {
            "jpeg": count,
            "decode_images_per_s": count / built_s,
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
        self.warm(**self.fast_asked)
        for epochs in [] if "epochs" in self.fast_asked else self.given.epochs:
            row = self.train("fast, search", 100, **self.fast_asked, epochs=epochs)
            if row is None or row["targets"][str(self.top)]:
                break
        self.fast_asked["epochs"] = self._epochs()
        for seed in range(self.given.n):
            self.train("fast", seed, **self.fast_asked)

    def _epochs(self) -> int:
        """As said, or the shortest of the search that reached the target, or the longest of it."""
        searched = self.of("fast, search")
        good = [row["epochs_asked"] for row in searched if row["targets"][str(self.top)]]
        asked = [row["epochs_asked"] for row in searched] or self.given.epochs
        return int(self.fast_asked.get("epochs") or min(good, default=max(asked)))

    def paper(self) -> None:
        recipes = {
            self._named(text): {**PAPER, "epochs": self.given.paper_epochs, **pairs(text)}
            for text in self.given.paper
        }
        self.warm(**PAPER, **TODAY)
        for name, asked in recipes.items():
            self.train(f"{name}, bf16", 0, **{**asked, **TODAY})
        # The joules of an epoch in fp32 do not hang on decay or epochs: they are asked once.
        self._fp32_epochs()
        for seed in range(1, max(self.given.n, 1)):
            for name, asked in recipes.items():
                self.train(f"{name}, bf16", seed, **{**asked, **TODAY})
        self.epoch_s |= {f"{name}, fp32": self.found["fp32"]["wall_s"] for name in recipes}
        for seed in range(self.given.paper_n):
            for name, asked in recipes.items():
                self.train(f"{name}, fp32", seed, **{**asked, **FP32})

    def _named(self, text: str) -> str:
        return f"paper, {text}" if text else "paper, as published"

    def _fp32_epochs(self) -> None:
        asked = {**self.network, **PAPER, **FP32, "data": str(self.data), "epochs": SHORT}
        row = train(asked, meter=self.meter, seed=0)
        each_j, each = row["epoch_j"][1:], row["samples"] / SHORT
        known = None not in row["epoch_j"] and row["energy_j"] is not None
        self.found["fp32"] = {
            "epoch_j": spread(each_j),  # with its evaluation
            "train_and_evaluate_j_per_image": spread([j / each for j in each_j if j is not None]),
            "images_per_s": spread([each / s for s in row["epoch_s"][1:]]),
            # Loading and making the network; choosing algorithms is in the first epoch, which is left out.
            "before_j": row["energy_j"] - sum(row["epoch_j"]) if known else None,
            "before_s": row["time_s"] - sum(row["epoch_s"]),
            "epoch_s": spread(row["epoch_s"][1:]),
            "wall_s": row["wall_s"] / SHORT,
        }
        self.save()
        say(f"fp32: {shown(self.found['fp32']['epoch_j'])} J an epoch, n = {SHORT - 1}")

    def batches(self) -> None:
        asked = {**self.fast_asked, "epochs": self._epochs()}
        for size in self.given.batches:
            self.warm(**{**asked, "batch_size": size})
        for seed in range(self.given.n):
            for size in self.given.batches:
                self.train(f"fast, batch {size}", seed, **{**asked, "batch_size": size})

    def factors(self) -> None:
        """Epochs of one length, each setting changed alone from the one above it."""
        steps: dict[str, dict[str, Any]] = {
            "fp32, batch 256": {**PAPER, **FP32},
            "tf32": {**PAPER, **FP32, "precision": "tf32"},
            "bf16": {**PAPER, **FP32, "precision": "bf16"},
            "bf16, channels_last": {**PAPER, **TODAY},
            "bf16, channels_last, batch 512": {**PAPER, **TODAY, "batch_size": 512},
            "fast recipe, batch 512": FAST,
            "fast recipe, as asked": {**self.fast_asked, "compile": "off"},
            "fast recipe, as asked, compile": {**self.fast_asked, "compile": "on"},
        }
        found = {}
        for name, asked in steps.items():
            if DEVICE.type != "cuda" and "tf32" in name:
                continue
            if self.box.left_s() < (50.0 if "compile" in name else 12.0):
                self.notes.append(f"factors: {name} left out for want of time")
                continue
            made = setting(**{**self.network, **asked, "data": str(self.data), "epochs": 4})
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
            self.save()

    # ---- what came of it -----------------------------------------------------------------------------------

    def text(self) -> str:
        lines = [f"ResNet-18, stem for CIFAR, 20,000 training pictures; fast: {in_words(self.fast_asked)}"]
        if "path" in self.found:
            path = self.found["path"]
            lines += ["", "data path (pictures a second):"]
            lines += [
                f"  {name:28} {shown(value) if isinstance(value, dict) else f'{value:.4g}'}"
                for name, value in path.items()
            ]
        for target in self.given.targets:
            lines += ["", *self._to(str(target))]
        if "fp32" in self.found:
            fp32 = self.found["fp32"]
            lines += [
                "",
                f"usual recipe in fp32: {shown(fp32['epoch_j'])} J an epoch with its evaluation "
                f"(n = {SHORT - 1}), {shown(fp32['train_and_evaluate_j_per_image'])} J a training picture",
            ]
        for name, row in self.found.get("factors", {}).items():
            lines.append(
                f"  {name:34} {shown(row['j_per_image'])} J/image, {shown(row['images_per_s'])} images/s, "
                f"waiting {100 * row['waiting_share']:.2f} %, first epoch {row['first_epoch_s']:.1f} s"
            )
        return "\n".join([*lines, *self.notes])

    def _to(self, target: str) -> list[str]:
        """What each kind took to one accuracy, and how many times as much as the fast recipe."""
        lines = [
            f"{'to val_accuracy >= ' + target:44} {'reached':>8} {'epochs':>14} {'J':>16} {'s':>14} "
            f"{'x fast':>7}",
        ]
        fast_j = self._means("fast", target)["energy_j"]["mean"]
        for kind in self.kinds():
            means = self._means(kind, target)
            rows = self.of(kind)
            count = f"{means['energy_j']['n'] or means['epochs']['n']}/{len(rows)}"
            lines.append(self._line(f"{kind}, measured", count, means, fast_j))
            told = kind.replace(", bf16", ", fp32")
            if told != kind and means["epochs"]["n"] and "fp32" in self.found:
                lines.append(self._line(f"{told}, CALCULATED", count, self._calculated(kind, target), fast_j))
        return lines

    def _means(self, kind: str, target: str) -> dict[str, dict[str, Any]]:
        hits = [row["targets"][target] for row in self.of(kind) if row["targets"][target]]
        return {name: spread([hit[name] for hit in hits]) for name in ("epochs", "energy_j", "time_s")}

    def _calculated(self, kind: str, target: str) -> dict[str, dict[str, Any]]:
        """Epochs in bf16, each at what an epoch costs in fp32."""
        epochs = [row["targets"][target]["epochs"] for row in self.of(kind) if row["targets"][target]]
        fp32 = self.found["fp32"]
        each_j, before_j = fp32["epoch_j"]["mean"], fp32["before_j"]
        return {
            "epochs": spread(epochs),
            "energy_j": spread(
                [before_j + n * each_j for n in epochs] if None not in (each_j, before_j) else []
            ),
            "time_s": spread([fp32["before_s"] + n * fp32["epoch_s"]["mean"] for n in epochs]),
        }

    def _line(self, name: str, count: str, means: dict[str, Any], fast_j: float | None) -> str:
        j = means["energy_j"]["mean"]
        times = f"{j / fast_j:.2f}" if j and fast_j else "-"
        figures = [
            f"{shown(means[part]):>{w}}" for part, w in (("epochs", 14), ("energy_j", 16), ("time_s", 14))
        ]
        return f"  {name:42} {count:>8} {' '.join(figures)} {times:>7}"


def fast_of(text: str) -> dict[str, Any]:
    """Key by value, or what the file of an exploration found."""
    if text.endswith(".json"):
        found = json.loads(Path(text).read_text())["winner"]
        if found is None:
            raise SystemExit(f"{text}: nothing was trained there")
        if not found["confirmed"]:
            say(f"{text}: {found['variant']} came nearest, and is not confirmed")
        return dict(found["asked"])
    return pairs(text)


def accuracies(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--targets", type=accuracies, default=[0.9])
    parser.add_argument(
        "--fast", type=fast_of, default={}, help="key=value,... or a file of vision_recipe.py"
    )
    parser.add_argument("--paper", action="append", help="key=value,... of the usual recipe; may be repeated")
    parser.add_argument("--seconds", type=float, default=400.0, help="no run is begun that would end later")
    parser.add_argument("--parts", default="path,fast,paper,batches,factors")
    parser.add_argument("--batches", type=numbers, default=[128, 512, 2048])
    parser.add_argument("--epochs", type=numbers, default=[16, 20, 25, 32, 40], help="fast recipe")
    parser.add_argument("--paper-epochs", type=int, default=75, help="usual recipe")
    parser.add_argument("--paper-n", type=int, default=1, help="seeds of the usual recipe in fp32")
    parser.add_argument("-n", type=int, default=5, help="seeds")
    parser.add_argument("--smoke", action="store_true", help="a narrow network, to try the script")
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    given.paper = PAPERS if given.paper is None else given.paper
    devices = ("nvidia",) if DEVICE.type == "cuda" else ()
    with tempfile.TemporaryDirectory() as folder, Meter(devices=devices) as meter:
        bench = Bench(given, unpacked(given.data, Path(folder)), meter)
        if given.smoke:
            bench.network |= {"width": 4}
        try:
            for name in given.parts.split(","):
                getattr(bench, name)()
                bench.save()
        finally:
            bench.save()
            print(bench.text(), flush=True)


if __name__ == "__main__":
    main()
