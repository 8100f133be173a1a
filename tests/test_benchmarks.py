# SPDX-License-Identifier: Apache-2.0
"""A benchmark that ran for minutes must not lose its result at the last line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

ONE_LOAD = (
    "import sys\n"
    "sys.path.insert(0, sys.argv.pop(1))\n"
    "import meter_truth\n"
    "meter_truth.LOADS = {'160 of 200 ms': (0.160, 0.040)}\n"
    "meter_truth.main()\n"
)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="the stand-in library needs gcc")
def test_the_truth_of_the_meter_against_a_stand_in(weird_tmp_path: Path) -> None:
    out = weird_tmp_path / "truth.json"
    words = ["--stand-in", "--seconds", "4", "--windows", "20", "-o", str(out)]
    subprocess.run([sys.executable, "-c", ONE_LOAD, str(ROOT / "benchmarks"), *words], check=True, timeout=50)
    written = json.loads(out.read_text())
    assert written["device"]
    assert [row["kind"] for row in written["rows"]] == ["anywhere", "on edges", "exact"]
    assert all(row["held"] == 1 for row in written["rows"])
    assert str(ROOT) not in out.read_text()


@pytest.mark.slow
def test_the_search_for_a_recipe_and_what_it_goes_on_from(weird_tmp_path: Path) -> None:
    program = [sys.executable, str(ROOT / "benchmarks" / "vision_recipe.py"), "--smoke", "--seconds", "40"]
    first, second = weird_tmp_path / "first.json", weird_tmp_path / "second.json"

    def call(*words: str) -> str:
        done = subprocess.run(
            [*program, *words], check=True, timeout=55, cwd=weird_tmp_path, stdout=subprocess.PIPE, text=True
        )
        return done.stdout

    said = call(
        "--target", "0.01", "--variants", "cutmix", "--add", "mine: mix=mixup,hole=2", "-o", str(first)
    )
    written = json.loads(first.read_text())
    assert {row["variant"] for row in written["rows"]} == {"cutmix", "mine"}
    assert written["winner"]["confirmed"]
    assert all(row["reached"]["epochs"] == 2 for row in written["rows"])
    assert "cheapest that reached it" in said
    said = call("--target", "1.1", "--variants", "strong", "--resume", str(first), "-o", str(second))
    written = json.loads(second.read_text())
    assert {row["variant"] for row in written["rows"]} == {"cutmix", "mine", "strong"}
    assert not written["winner"]["confirmed"]
    assert "NOT CONFIRMED" in said
    assert sorted(path.name for path in weird_tmp_path.iterdir()) == ["first.json", "second.json"]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_joules_to_several_accuracies_from_few_trainings(weird_tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for part, count in (("train", 24), ("val", 8)):
        for kind, colour in (("light", 200), ("dark", 40)):
            folder = weird_tmp_path / "pictures" / part / kind
            folder.mkdir(parents=True)
            for k in range(count):
                image.new("RGB", (32, 32), (colour + k % 8,) * 3).save(folder / f"{k}.jpg")
    found = weird_tmp_path / "found.json"
    asked = {"batch_size": 16, "precision": "fp32", "epochs": 2, "learning_rate": 0.5, "evaluate_from": 0.0}
    winner = {"variant": "mine", "confirmed": True, "asked": {"recipe": "fast", **asked}}
    found.write_text(json.dumps({"winner": winner}))
    out = weird_tmp_path / "accuracy.json"
    words = ["--data", str(weird_tmp_path / "pictures"), "--targets", "0.4,1.1", "--smoke", "-n", "2"]
    words += ["--fast", str(found), "--paper", "", "--paper", "decay=0.001,epochs=1", "--paper-epochs", "2"]
    words += ["--parts", "fast,paper", "-o", str(out), "--seconds", "150"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "vision_accuracy.py"), *words],
        check=True,
        timeout=160,
        cwd=weird_tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    written = json.loads(out.read_text())
    kinds = [(row["kind"], row["seed"], row["epochs"]) for row in written["trainings"]]
    published, other = "paper, as published", "paper, decay=0.001,epochs=1"
    assert kinds == [
        ("fast", 0, 2),
        ("fast", 1, 2),
        (f"{published}, bf16", 0, 2),
        (f"{other}, bf16", 0, 1),
        (f"{published}, bf16", 1, 2),
        (f"{other}, bf16", 1, 1),
        (f"{published}, fp32", 0, 2),
        (f"{other}, fp32", 0, 1),
    ]
    for row in written["trainings"]:
        assert row["targets"]["1.1"] is None
        # Half of the pictures are of either kind: whoever says nothing has 0.5.
        assert row["targets"]["0.4"]["epochs"] <= row["epochs"]
        assert row["targets"]["0.4"]["energy_j"] <= row["energy_j"]
    assert written["fp32"]["epoch_j"]["n"] == 4
    assert f"{published}, fp32, CALCULATED" in done.stdout
    assert f"{published}, fp32, measured" in done.stdout


def test_how_long_a_checkpoint_holds_a_step_up(weird_tmp_path: Path) -> None:
    out = weird_tmp_path / "hold.json"
    words = ["--width", "300", "--checkpoints", "6", "--optimizer", "adam", "-o", str(out)]
    script = ROOT / "benchmarks" / "checkpoint_hold.py"
    subprocess.run([sys.executable, str(script), *words], check=True, timeout=50)
    written = json.loads(out.read_text())
    assert 1 <= written["held_up"]["n"] < 6
    assert written["checkpoint_mb"] == pytest.approx(3 * written["model_mb"], rel=0.1)
    assert 0 < written["held_up"]["median_ms"] < written["written_in"]["range_ms"][1]


@pytest.mark.slow
def test_the_cost_of_noting_when_workers_were_ready(weird_tmp_path: Path) -> None:
    out = weird_tmp_path / "cost.json"
    words = [sys.executable, str(ROOT / "benchmarks" / "timeline_cost.py"), "--small", "-o", str(out)]
    done = subprocess.run(
        words, check=True, timeout=55, cwd=weird_tmp_path, stdout=subprocess.PIPE, text=True
    )
    written = json.loads(out.read_text())
    assert [set(row) for row in written["rounds"]] == [{"every 0", "every 50", "every 1", "bare"}] * 2
    assert all(rate > 0.0 for row in written["rounds"] for rate in row.values())
    assert ("NOT QUIET" in done.stdout) == (not written["quiet"])
    assert [path.name for path in weird_tmp_path.iterdir()] == ["cost.json"]
