# SPDX-License-Identifier: Apache-2.0
"""`joulelab data`: the commands as a user types them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from joulelab.cli import app
from joulelab.data import GENERATORS, cache, cache_folder
from joulelab.errors import InputError
from joulelab.workloads import RECIPES, WORKLOADS

if TYPE_CHECKING:
    from pathlib import Path


SCALE = {"nt3": "0.001", "p1b1": "0.001", "p1b2": "0.001", "p1b3": "0.002", "yolo": "0.005"}


def joulelab(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def generate(name: str, out: Path, *more: str) -> dict[str, str]:
    """The files by name, as hashes."""
    done = joulelab("data", "generate", name, "--out", str(out), "--scale", SCALE[name], *more)
    assert done.exit_code == 0, done.output
    found = {path.name: path for path in out.rglob("*.*") if path.is_file()}
    for path in found.values():
        assert f"{path}  {path.stat().st_size:,} bytes" in done.stdout
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in found.items()}


@pytest.mark.parametrize("name", GENERATORS)
def test_the_seed_decides_the_bytes(weird_tmp_path: Path, name: str) -> None:
    first = generate(name, weird_tmp_path / "a" / "b")
    assert first
    assert generate(name, weird_tmp_path / "again", "--seed", "0") == first
    other = generate(name, weird_tmp_path / "other", "--seed", "1")
    assert other.keys() == first.keys()
    assert other != first


def test_every_generator_is_of_a_workload() -> None:
    assert set(GENERATORS) <= set(WORKLOADS)


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("1\n")
    done = joulelab("data", "generate", "nt3", "--out", str(tmp_path), "--scale", "0.001")
    assert isinstance(done.exception, InputError)
    assert "is not empty" in str(done.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.csv"]


def test_a_misspelt_name_and_a_file_in_the_way(tmp_path: Path) -> None:
    done = joulelab("data", "generate", "nt4", "--out", str(tmp_path / "x"))
    assert isinstance(done.exception, InputError)
    assert "did you mean 'nt3'" in str(done.exception)
    (tmp_path / "file").write_text("")
    done = joulelab("data", "generate", "nt3", "--out", str(tmp_path / "file"), "--scale", "0.001")
    assert isinstance(done.exception, InputError)
    assert "cannot be written" in str(done.exception)


def test_a_scale_out_of_range_is_refused(tmp_path: Path) -> None:
    assert joulelab("data", "generate", "nt3", "--out", str(tmp_path / "x"), "--scale", "2").exit_code == 2
    assert not (tmp_path / "x").exists()


def test_the_flags_of_run_say_which_workloads_they_are_for() -> None:
    text = " ".join(joulelab("run", "--help").output.split())
    for recipe in RECIPES.values():
        for parameter in recipe.parameters:
            assert f"--{parameter.name.replace('_', '-')}" in text
    assert "nt3, p1b1: ends the training after" in text
    assert "resnet: differs from workload to workload" in text
    assert "p1b3: columns drawn" in text


def test_the_cache_is_listed_and_cleared(weird_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cache_folder.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(weird_tmp_path / "xdg"))
    csv = weird_tmp_path / "folder" / "table.csv"
    csv.parent.mkdir()
    csv.write_bytes(b"1,2\n")
    cache.read(csv)
    assert joulelab("data", "cache").stdout == ""  # what lies beside a file is seen where one looks
    listed = joulelab("data", "cache", "--list", str(weird_tmp_path)).stdout
    assert listed.split()[:1] == ["current"]
    assert listed.endswith(f" B  {csv}\n")
    cleared = joulelab("data", "cache", "--clear", str(weird_tmp_path))
    assert cleared.stdout.startswith("removed 1 files, ")
    assert joulelab("data", "cache", str(weird_tmp_path)).stdout == ""
    assert [path.name for path in csv.parent.rglob("*.csv")] == ["table.csv"]
