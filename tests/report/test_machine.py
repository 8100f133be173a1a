# SPDX-License-Identifier: Apache-2.0
"""The machines behind a table, each once; a damaged host.json hides nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from joulelab.records import store
from joulelab.report.machine import machines, model_error
from tests.analysis.records import write

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.records.store import TrialRecord


def on(path: Path, host: dict[str, Any]) -> TrialRecord:
    record = write(path, {})
    store.write_json(record.folder.host, {"schema": 1, **host})
    return record


def test_each_machine_once(tmp_path: Path) -> None:
    gpu = {"uid": "gpu:1", "name": "NVIDIA H200", "source": "counter", "gain_error": 0.05}
    guess = {"uid": "cpu", "name": "CPU time", "source": "estimated", "gain_error": 0.5}
    records = [
        on(tmp_path / "a", {"host": "n1", "cpu": "Xeon", "cpu_usable": 8, "devices": [gpu, gpu]}),
        on(tmp_path / "b", {"host": "n1", "cpu": "Xeon", "cpu_usable": 8, "devices": [gpu]}),
        on(tmp_path / "c", {"host": "n2", "devices": [guess]}),
        write(tmp_path / "d", {}),
    ]
    assert machines(records) == ["n1 (Xeon, 8 CPUs; metered: NVIDIA H200)", "n2 (metered: CPU time)"]
    assert model_error(records) == 0.5
    assert model_error(records[:2]) is None


def test_a_damaged_host_file(tmp_path: Path) -> None:
    record = write(tmp_path / "a", {})
    record.folder.host.write_text("{")
    assert machines([record]) == []
