# SPDX-License-Identifier: Apache-2.0
"""The studies that come with the package can be planned; a small variant has the form of the full one."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from joulelab.cli import app
from joulelab.errors import InputError
from joulelab.hardware import nvidia_capability
from joulelab.records.store import load_records
from joulelab.study.plan import plan
from joulelab.study.study_file import read_study

if TYPE_CHECKING:
    from tests.fakes.caps import Machine

STUDIES = sorted((Path(__file__).parents[1] / "studies").glob("*.toml"))
PAPER = [path for path in STUDIES if path.stem.startswith("edelman_")]
SCALED = [path for path in STUDIES if path.stem.startswith("wu_")]
# Where a machine without a GPU cannot have as many rows.
FEWER = {"edelman_precision_parts": {"precision": ("fp32", "bf16")}}


def asked(path: Path, *, small: bool = False) -> Any:
    needs = tomllib.loads(path.read_text(encoding="utf-8")).get("needs", {})
    # A word without a slash is not looked for on the disk.
    given = {} if small else dict.fromkeys(needs, "there")
    return read_study(path, small=small, given=given)


@pytest.fixture
def a_gpu(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Boards that can be capped, and that have every format."""
    monkeypatch.setattr(nvidia_capability, "capability", lambda: ("a board", (9, 0)))


@pytest.mark.usefixtures("a_gpu")
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_it_can_be_planned(path: Path) -> None:
    study = asked(path)
    assert len(plan(study)) == study.count() > 1
    assert not study.small


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_the_small_variant_has_the_same_rows_and_columns(path: Path, request: pytest.FixtureRequest) -> None:
    small = asked(path, small=True)  # on a machine without a GPU, and without data
    assert all(spec.small for spec in plan(small))
    request.getfixturevalue("a_gpu")
    full = asked(path)
    assert list(small.grid) == list(full.grid)
    assert small.grid == full.grid | FEWER.get(path.stem, {})
    assert small.against == full.against != {}
    # What is compared differs in nothing but size: the same task, the same target figure, the same knobs.
    assert small.knobs.keys() == full.knobs.keys()
    assert small.knobs.get("task") == full.knobs.get("task")
    aimed_at = {str(study.knobs["target"]).partition(" ")[0] for study in (small, full)}
    assert len(aimed_at) == 1


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_it_says_what_it_asks_and_of_which_figure(path: Path) -> None:
    words = " ".join(line.lstrip("# ") for line in path.read_text(encoding="utf-8").splitlines()[:12])
    assert "Edelman et al." in words or "edelman_accuracy_energy.toml" in words
    listed = (Path(__file__).parents[1] / "docs" / "studies.md").read_text(encoding="utf-8")
    assert f"`{path.stem}`" in listed


def test_the_full_ones_ask_for_the_data_or_need_none() -> None:
    for path in PAPER:
        if path.stem == "edelman_precision_parts":
            continue  # noise on the device
        with pytest.raises(InputError, match=rf"\[needs\]: this study has to be told data(.|\n)*{path.name}"):
            read_study(path)


# Edelman et al., sections III and IV.
ASKED: dict[str, dict[str, tuple[object, ...]]] = {
    "edelman_batch": {"batch_size": (64, 128, 256, 512)},
    "edelman_batch_yolo": {"batch_size": (32, 64, 128, 256, 512)},
    "edelman_complexity": {"depth": (18, 34, 50, 101, 152)},
    "edelman_complexity_yolo": {"size": tuple("nsmlx")},
    "edelman_inference": {"depth": (18, 34, 50, 101, 152)},
    "edelman_inference_yolo": {"size": tuple("nsmlx")},
    "edelman_power_cap": {"power_limit": ("100%", "80%", "60%", "40%")},
    "edelman_precision": {"precision": ("fp32", "fp16")},
}


@pytest.mark.usefixtures("a_gpu")
@pytest.mark.parametrize("name", ASKED)
def test_what_the_paper_varied(name: str) -> None:
    (path,) = [path for path in PAPER if path.stem == name]
    study = asked(path)
    assert study.grid == ASKED[name]
    if study.knobs["task"] == "inference":
        assert study.knobs["epochs"] == 1
    elif "complexity" in name:
        assert study.knobs["epochs"] == (100 if study.workload == "yolo" else 40)
    elif study.workload == "resnet":
        assert study.knobs["target"] == "val_accuracy >= 0.70"


def joulelab(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_simulated_card_is_capped_from_end_to_end(tmp_path: Path, machine: Machine) -> None:
    (path,) = [path for path in PAPER if path.stem == "edelman_power_cap"]
    file = tmp_path / path.name  # beside the card of the test, whose caps are noted beside it
    file.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    card = path.with_suffix(".json").read_text(encoding="utf-8")
    file.with_suffix(".json").write_text(card, encoding="utf-8")
    out = tmp_path / "runs"
    done = joulelab(
        "study", str(file), "--small", "--set", "repeats=1", "--set", "epochs=2", "--out", str(out)
    )
    assert done.exit_code == 0, done.output
    assert "SMALL VARIANT" in done.stdout
    assert "Against power_limit=100%" in done.stdout
    records = {record.spec.knobs["power_limit"]: record for record in load_records(out)}
    assert records.keys() == {"100%", "80%", "60%", "40%"}
    power_w = []
    for cap, watts in (("100%", 250.0), ("80%", 200.0), ("60%", 150.0), ("40%", 100.0)):
        (row,) = records[cap].host["settings"]
        assert (row["simulated"], row["found_w"], row["in_force_w"]) == (True, 250.0, watts)
        result = records[cap].result
        assert result is not None
        assert result.power_w is not None
        assert any(flag.startswith("simulated") for flag in result.flags)
        power_w.append(result.power_w)
    # A fifth of the time it draws 60 W, the rest what the cap leaves of 240 W.
    assert power_w == pytest.approx([204.0, 172.0, 132.0, 92.0], rel=0.05)
    notes = list(tmp_path.glob("*.caps"))
    assert [line.split()[-1] for line in notes[0].read_text().splitlines()][-1] == "250", "put back"
    assert machine.gpu_log() == [], "no real board was capped for it"
    rows = json.loads(joulelab("show", str(out), "--json").stdout)
    assert all(row["simulated"] and row["small"] for row in rows)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_small_variant_ends_with_table_and_comparison(tmp_path: Path) -> None:
    (path,) = [path for path in PAPER if path.stem == "edelman_precision"]
    out = tmp_path / "runs"
    done = joulelab("study", str(path), "--small", "--out", str(out))
    assert done.exit_code == 0, done.output
    assert "Against precision=fp32" in done.stdout
    rows = json.loads(joulelab("show", str(out), "--json", "--against", "precision=fp32").stdout)
    assert [row["precision"] for row in rows] == ["fp16", "fp32"]
    assert rows[0]["reference"] == rows[1]["trial"]
    assert rows[0]["j_per_sample_change"] is not None


@pytest.mark.parametrize("path", SCALED, ids=lambda path: path.stem)
def test_a_study_of_workers_is_small_in_numbers_only(path: Path) -> None:
    small, full = asked(path, small=True), asked(path)
    assert list(small.grid) == list(full.grid)
    assert small.against == full.against == {"workers": 1}
    assert max(small.grid["workers"]) < max(full.grid["workers"])
    assert small.knobs.keys() == full.knobs.keys()
    assert small.knobs["threads"] == 1, "a worker does not gain what another one's threads lose"
    assert small.knobs.get("sharing") == full.knobs.get("sharing")
    listed = (Path(__file__).parents[1] / "docs" / "studies.md").read_text(encoding="utf-8")
    assert f"`{path.stem}`" in listed
