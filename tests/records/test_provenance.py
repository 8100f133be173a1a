# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from joulelab.records import provenance, store
from joulelab.records.layout import TrialFolder
from joulelab.records.measurement import Measurement

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_host_json_says_where_the_figures_were_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("SECRET_TOKEN", "do not keep")
    idle = Measurement(time_s=1.0, energy_j=80.0, energy_error_j=1.0, power_w=80.0)
    provenance.write_host(TrialFolder(tmp_path), devices=[{"uid": "gpu:0"}], idle=idle)
    text = (tmp_path / "host.json").read_text()
    host = store.read_json(tmp_path / "host.json", dict)
    assert host["idle_power_w"] == 80.0
    assert host["devices"] == [{"uid": "gpu:0"}]
    assert host["versions"]["msgspec"]
    assert host["environment"]["OMP_NUM_THREADS"] == "2"
    assert "do not keep" not in text
    assert host["cpu"]
    assert host["memory_gib"] > 0


def test_revision_names_the_commit_and_keeps_the_difference(weird_tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-C", str(weird_tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words],
            check=True,
        )

    assert provenance.revision(weird_tmp_path) == {}
    git("init", "-q")
    (weird_tmp_path / "train.py").write_text("lr = 1\n")
    git("add", ".")
    git("commit", "-qm", "one")
    clean = provenance.revision(weird_tmp_path)
    assert len(clean["revision"]) == 40
    assert clean["dirty"] is False
    (weird_tmp_path / "train.py").write_text("lr = 2\n")
    dirty = provenance.revision(weird_tmp_path)
    assert dirty["dirty"] is True
    assert "+lr = 2" in dirty["diff"]


def test_a_working_folder_that_was_removed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    about = provenance.describe()
    assert (about["folder"], about["source"]) == ("", {})
