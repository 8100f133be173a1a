# SPDX-License-Identifier: Apache-2.0
"""Where a trial is, read out of a file that another machine is writing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from joulelab.launch.progress import Step
from joulelab.launch.watched import TAIL_BYTES, last_step
from joulelab.records import store
from joulelab.records.layout import TrialFolder
from joulelab.records.trial import TrialSpec

if TYPE_CHECKING:
    from pathlib import Path

SPEC = TrialSpec(workload="x", repeats=2, warmup=1, knobs={"epochs": 8})


def test_the_last_epoch_that_has_ended(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    assert last_step(folder, SPEC) is None
    lines = store.Lines(folder.metrics, kind="metrics")
    assert last_step(folder, SPEC) is None
    lines.append({"repeat": 1, "warmup": True, "epoch": 1, "loss": 0.5, "accuracy": 0.25, "what": "ever"})
    lines.append({"repeat": 2, "warmup": False, "epoch": 3, "loss": 0.125, "filler": "x" * 200})
    lines.close()
    wanted = Step(repeat=2, of=3, warmup=False, phase="after", epoch=3, epochs=8, loss=0.125)
    assert last_step(folder, SPEC) == wanted
    with folder.metrics.open("ab") as file:
        file.write(b'{"repeat": 2, "epo')  # being written
    assert last_step(folder, SPEC) == wanted


def test_of_a_long_file_only_the_end_is_read(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    lines = store.Lines(folder.metrics, kind="metrics")
    for epoch in range(1, 400):
        lines.append({"repeat": 1, "epoch": epoch, "filler": "x" * 50})
    lines.close()
    assert folder.metrics.stat().st_size > 2 * TAIL_BYTES
    step = last_step(folder, SPEC)
    assert step is not None
    assert step.epoch == 399


def test_a_damaged_line_is_passed_over(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    folder.metrics.write_bytes(b'{"repeat": 1, "epoch": 1, "loss": "none"}\n[1]\n\xff\n')
    assert last_step(folder, SPEC) == Step(repeat=1, of=3, phase="after", epoch=1, epochs=8)
