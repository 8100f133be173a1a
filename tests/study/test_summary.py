# SPDX-License-Identifier: Apache-2.0
"""The words at the end of a study, and its exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from joulelab.records import store
from joulelab.records.layout import TrialFolder
from joulelab.records.trial import Result
from joulelab.study.summary import Summary, summarize

if TYPE_CHECKING:
    from pathlib import Path


def test_all_done() -> None:
    summary = Summary(planned=3, ran=1, done=3)
    assert (summary.exit_code, summary.text()) == (0, "3 of 3 trials done, 1 in this run")


def test_stopped_says_how_to_go_on() -> None:
    summary = Summary(planned=8, ran=2, done=2, left=5, failed={"t": "stopped by SIGINT"}, stopped=2)
    assert summary.exit_code == 130
    assert "stopped; the same command goes on with the 6 that are left" in summary.text()


def test_failed_invalid_and_strangers_are_named() -> None:
    summary = Summary(
        planned=3,
        ran=3,
        done=2,
        failed={"a": "out of memory"},
        invalid={"b": "NaN"},
        strangers=tuple("123456"),
    )
    text = summary.text()
    assert summary.exit_code == 1
    assert "failed: a: out of memory" in text
    assert "invalid: b: NaN" in text
    assert "6 trials in this folder are not in it any more" in text
    assert text.endswith("1, 2, 3, 4, 5, ...")


def test_a_record_that_cannot_be_read_is_one_that_failed(tmp_path: Path) -> None:
    good, bad = TrialFolder(tmp_path / "good"), TrialFolder(tmp_path / "bad")
    for folder in (good, bad):
        folder.path.mkdir()
        store.write_json(folder.result, Result(state="done", time_s=1.0, energy_j=1.0, energy_error_j=0.1))
        folder.done.touch()
    bad.result.write_bytes(bad.result.read_bytes()[:20])
    summary = summarize([good, bad], ran=[], strangers=[], stopped=0)
    assert (summary.done, list(summary.failed), summary.exit_code) == (1, ["bad"], 1)
    assert summary.failed["bad"].endswith(f"to run it again, remove {bad.path}")
