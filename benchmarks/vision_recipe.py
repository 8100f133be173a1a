# SPDX-License-Identifier: Apache-2.0
"""Looks for the recipe with which ResNet-18 reaches an accuracy on few real pictures for the fewest joules.

    python benchmarks/vision_recipe.py --data CIFAR.zip -o FILE.json [--target 0.9] [--seconds 600]
        [--lengths 30,45,60,80,110,150,200] [--start 60] [--variants "cutmix;strong"]
        [--add "NAME: key=value,..."] [--all key=value,...] [--seeds 5] [--need 4] [--compile auto|on|off]
        [--resume FILE.json] [--smoke]

--data is a zip, or a folder, with train/CLASS/ and val/CLASS/ below its top. Each variant of the fast recipe
is trained once for --start epochs; then the cheapest that may reach the target by what was seen so far is
trained again, longer, shorter, or with another seed, until one has reached it in --need of --seeds seeds and
nothing cheaper may (vision_search.py says how). A training is begun only if it would end in time. The first
seed is trained to its end, the others to the target. Joules to the target are those of loading, making the
network and all epochs up to the first that reached it; compiling is done once before, and told apart.
After every training all that was found is written to FILE.json; --resume goes on from there.
`benchmarks/vision_accuracy.py --fast FILE.json` measures what was found.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from vision_parts import DEVICE, Box, machine, say, shown, spread, write
from vision_search import Search, Variant, best, reached, runs_of
from vision_train import FAST, NETWORK, in_words, numbers, pairs, train, unpacked

from joulelab import Meter
from joulelab.train.precision import precision
from joulelab.workloads.resnet import Resnet

if TYPE_CHECKING:
    from torch import nn

# With 20,000 pictures the recipe as it is ends at 0.866: it learns them by heart. What holds against that
# needs more epochs: the gains of twice as many are guesses, until two lengths of a variant were seen.
VARIANTS = (
    Variant("cutmix", {"mix": "cutmix", "hole": 0}, 0.015),
    Variant("strong, cutmix", {"augment": "strong", "mix": "cutmix", "hole": 0}, 0.022),
    Variant("cutmix, ends", {"mix": "cutmix", "mix_share": 1.0, "mix_until": 0.8, "hole": 0}, 0.018),
    Variant("strong", {"augment": "strong"}, 0.015),
    Variant(
        "strong, cutmix, ends",
        {"augment": "strong", "mix": "cutmix", "mix_share": 1.0, "mix_until": 0.8, "hole": 0},
        0.022,
    ),
    Variant("cutmix, alternating", {"mix": "cutmix", "hole": 0, "mirror": "alternating"}, 0.015),
    Variant("cutmix, decay", {"mix": "cutmix", "hole": 0, "decay": 1e-3}, 0.015),
    Variant("both", {"mix": "both", "mix_share": 0.8, "hole": 0}, 0.018),
    Variant("as it is", {}, 0.006),
)
LOOK_FROM = 0.85  # of the epochs: an evaluation costs a fifth of an epoch, and accuracy comes at the end
SMALL: dict[str, Any] = {
    "data": "",
    "images": 256,
    "classes": 4,
    "image_size": 16,
    "width": 4,
    "batch_size": 64,
}


class Looked(Resnet):
    """Keeps what was evaluated last, so that it can be looked at in another way when nothing is measured."""

    last: ClassVar[list[tuple[Resnet, nn.Module]]] = []

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        Looked.last[:] = [(self, model)]
        return super().evaluate(model)


def shifted() -> dict[str, float]:
    """The accuracy of what was evaluated last, with shifted copies: three times the cost of an evaluation."""
    (workload, model) = Looked.last.pop()
    workload.choices = replace(workload.choices, shifted=True)
    format_ = precision(str(workload.setting.knobs["precision"]), device=DEVICE)
    with torch.no_grad(), format_.autocast():
        return {"shifted": workload.evaluate(model)["val_accuracy"]}


class Explore:
    """One call of this program: what was asked, what was found, and the time that is left."""

    def __init__(self, given: argparse.Namespace, meter: Meter, *, asked: dict[str, Any], root: Path) -> None:
        self.given = given
        self.meter = meter
        self.root = root
        variants = chosen(given)
        self.box = Box(given.seconds)
        self.asked = asked
        self.rows: list[dict[str, Any]] = []
        self.speed: dict[str, Any] = {}
        self.compile = "off"
        self.search = Search(variants, given.lengths, given.start, given.target, given.seeds, given.need)
        if given.resume:
            self.rows = json.loads(given.resume.read_text())["rows"]
            self.search.runs = runs_of(self.rows)

    def go(self) -> None:
        self._warm()
        while (found := self.search.next_run(self._affordable)) is not None:
            self._run(*found)
            self.write()

    def _warm(self) -> None:
        """An epoch that counts for nothing, then two that tell the speed: as it comes, and compiled."""
        ways = {"auto": ("off", "on"), "on": ("on",), "off": ("off",)}[self.given.compile]
        for way in ways:
            asked = {**self.asked, "compile": way, "evaluate_from": 1.0}
            try:
                first = self._train({**asked, "epochs": 1})
            except SystemExit as refused:  # by the knob, which says what is missing
                if way == "off" or self.given.compile == "on":
                    raise
                say(str(refused))
                continue
            then = self._train({**asked, "epochs": 2})
            self.speed[way] = {
                "first_s": first["wall_s"],
                "first_j": first["energy_j"],
                "epoch_s": then["epoch_s"][0],  # without an evaluation
                "images_per_s": then["images_per_s"],
                "j_per_image": then["train_j_per_image"],
            }
            say(f"compile = {way}: first {first['wall_s']:.1f} s, then {then['images_per_s']:.0f} images/s")
        self.compile = min(self.speed, key=lambda way: self.speed[way]["epoch_s"])

    def _train(self, asked: dict[str, Any], **more: Any) -> dict[str, Any]:
        return train(asked, meter=self.meter, root=self.root, **{"seed": 0, **more})

    def _seconds(self, variant: Variant, epochs: int) -> float:
        """What a training is expected to take: by its variant, by the others, by the first epochs."""
        own = [row for row in self.rows if row["variant"] == variant.name] or self.rows
        each = [row["wall_s"] / row["epochs"] for row in own] or [1.3 * self.speed[self.compile]["epoch_s"]]
        return 1.0 + 1.05 * epochs * max(each)

    def _affordable(self, variant: Variant, epochs: int) -> bool:
        return self._seconds(variant, epochs) < self.box.left_s()

    def _run(self, variant: Variant, epochs: int, seed: int) -> None:
        asked = {**self.asked, **variant.asked, "compile": self.compile, "epochs": epochs}
        if seed:
            row = train(
                {**asked, "target": f"val_accuracy >= {self.given.target}"}, meter=self.meter, seed=seed
            )
        else:
            # How high it ends is what the next choice hangs on.
            row = self._train(asked, workload=Looked, after=shifted)
        row = {
            "variant": variant.name,
            "asked": variant.asked,
            **row,
            "reached": reached(row, self.given.target),
        }
        self.rows.append(row)
        self.search.runs = runs_of(self.rows)
        hit = row["reached"]
        at = f"reached at epoch {hit['epochs']}" if hit else "not reached"
        with_shifted = f", with shifted copies {row['shifted']:.4f}" if "shifted" in row else ""
        say(
            f"{variant.name:24} {epochs:4} epochs, seed {seed}: {best(row):.4f}{with_shifted}, "
            f"{row['energy_j'] or 0:.0f} J, {row['wall_s']:.0f} s, {row['images_per_s']:.0f}/s, "
            f"{at}; "
            f"{self.box.left_s():.0f} s left {row['reason']}"
        )

    # ---- what came of it -----------------------------------------------------------------------------------

    def table(self) -> list[dict[str, Any]]:
        """A line for each arm, the cheapest first."""
        lines = []
        for variant, epochs in sorted({(run.variant, run.epochs) for run in self.search.runs}):
            rows = [r for r in self.rows if (r["variant"], r["epochs_asked"]) == (variant, epochs)]
            hits = [row["reached"] for row in rows if row["reached"]]
            lines.append(
                {
                    "variant": variant,
                    "epochs": epochs,
                    "reached": len(hits),
                    "of": len(rows),
                    "accuracy": spread([best(row) for row in rows]),
                    "shifted": spread([row["shifted"] for row in rows if "shifted" in row]),
                    "j_to_target": spread([hit["energy_j"] for hit in hits]),
                    "s_to_target": spread([hit["time_s"] for hit in hits]),
                    "epochs_to_target": spread([hit["epochs"] for hit in hits]),
                    "whole_j": self.search.joules(variant, epochs),
                    "images_per_s": spread([row["images_per_s"] for row in rows]),
                    "train_j_per_image": spread([row["train_j_per_image"] for row in rows]),
                }
            )
        return sorted(lines, key=lambda line: line["whole_j"])

    def winner(self) -> dict[str, Any] | None:
        """The cheapest that reached the target in enough seeds, or, not confirmed, what came nearest."""
        arm = self.search.winner()
        if arm is None and not self.rows:
            return None
        if arm is None:
            nearest = max(
                self.table(), key=lambda line: (line["reached"] / line["of"], line["accuracy"]["mean"])
            )
            arm = nearest["variant"], nearest["epochs"]
        asked = next(row["asked"] for row in self.rows if row["variant"] == arm[0])
        knobs = {**self.asked, **asked, "compile": self.compile, "epochs": arm[1]}
        for name in (*NETWORK, "data"):
            knobs.pop(name, None)
        return {
            "variant": arm[0],
            "epochs": arm[1],
            "confirmed": self.search.winner() is not None,
            "reached": self.search.hits(*arm),
            "of": len(self.search.of(*arm)),
            "asked": knobs,
        }

    def write(self) -> None:
        kept = {"speed": self.speed, "winner": self.winner(), "table": self.table(), "rows": self.rows}
        write(self.given.out, {**machine(), "arguments": vars(self.given), **kept})

    def text(self) -> str:
        lines = [
            f"target: val_accuracy >= {self.given.target:g}; compile = {self.compile}",
            f"{'variant':24} {'epochs':>6} {'reached':>8} {'accuracy':>14} {'shifted':>8} "
            f"{'J to target':>16} {'at epoch':>9} {'J whole':>9} {'J/image':>9} {'images/s':>9}",
        ]
        for row in self.table():
            reached_ = f"{row['reached']}/{row['of']}"
            at = row["epochs_to_target"]["mean"]
            lines.append(
                f"{row['variant']:24} {row['epochs']:>6} {reached_:>8} {shown(row['accuracy']):>14} "
                f"{shown(row['shifted']):>8} {shown(row['j_to_target']):>16} "
                f"{'-' if at is None else f'{at:.1f}':>9} {row['whole_j']:>9.0f} "
                f"{shown({**row['train_j_per_image'], 'ci95': None}, 3):>9} "
                f"{shown({**row['images_per_s'], 'ci95': None}):>9}"
            )
        for way, row in self.speed.items():
            lines.append(
                f"compile = {way}: first epoch {row['first_s']:.1f} s and {row['first_j'] or 0:.0f} J, then "
                f"{row['images_per_s']:.0f} images/s"
            )
        found = self.winner()
        if found is None:
            return "\n".join([*lines, "", "nothing was trained: the time does not suffice for one training"])
        what = "cheapest that reached it" if found["confirmed"] else "NOT CONFIRMED, came nearest"
        lines += [
            "",
            f"{what}: {found['variant']}, {found['epochs']} epochs, "
            f"{found['reached']} of {found['of']} seeds",
            f"  {in_words(found['asked'])}",
        ]
        return "\n".join(lines)


def chosen(given: argparse.Namespace) -> list[Variant]:
    known = {variant.name: variant for variant in VARIANTS}
    names = [name.strip() for name in given.variants.split(";")] if given.variants else list(known)
    if given.add and not given.variants:
        names = []
    if unknown := set(names) - set(known):
        raise SystemExit(f"no variant {sorted(unknown)}: there are {'; '.join(known)}")
    added = []
    for text in given.add:
        name, _, asked = text.partition(":")
        added.append(Variant(name.strip(), pairs(asked), 0.015))
    return [*added, *(known[name] for name in names)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="zip or folder")
    parser.add_argument("--target", type=float, default=0.9)
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="no training is begun that would end later"
    )
    parser.add_argument("--lengths", type=numbers, default=[30, 45, 60, 80, 110, 150, 200], help="epochs")
    parser.add_argument("--start", type=int, default=60, help="epochs at which each variant is tried first")
    parser.add_argument("--variants", default="", help="names, with semicolons between them; else all")
    parser.add_argument(
        "--add", action="append", default=[], help="a variant 'NAME: key=value,...', tried first"
    )
    parser.add_argument("--all", default="", help="key=value,... for all variants")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--need", type=int, default=4, help="of the seeds must reach the target")
    parser.add_argument("--compile", default="auto", choices=("auto", "on", "off"))
    parser.add_argument("--resume", type=Path, help="what an earlier call has written")
    parser.add_argument(
        "--smoke", action="store_true", help="a narrow network on drawn pictures: seconds on a CPU"
    )
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    if given.smoke:
        given.lengths, given.start, given.seeds, given.need = [2, 3], 2, 2, 1
        given.compile = "off" if given.compile == "auto" else given.compile
    elif given.data is None:
        parser.error("--data is wanted, or --smoke")
    given.lengths = sorted({*given.lengths, given.start})
    devices = ("nvidia",) if DEVICE.type == "cuda" else ()
    with tempfile.TemporaryDirectory() as folder, Meter(devices=devices) as meter:
        asked = {**NETWORK, **FAST, "evaluate_from": LOOK_FROM, **pairs(given.all)}
        if given.smoke:
            asked |= {**SMALL, "precision": "fp32", "threads": 1}
        else:
            asked["data"] = str(unpacked(given.data, Path(folder)))
        explore = Explore(given, meter, asked=asked, root=Path(folder))
        try:
            explore.go()
        finally:
            explore.write()
            print(explore.text(), flush=True)


if __name__ == "__main__":
    main()
