# SPDX-License-Identifier: Apache-2.0
"""What is left on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from joulelab.hardware.device import Traits
from joulelab.meter.channel import EdgeChannel
from joulelab.meter.record import Record
from tests.meter.loads import Bench, Clock, drive, square


def test_power_lines_add_up_to_the_energy(weird_tmp_path: Path) -> None:
    clock, load = Clock(), square(60)
    channel = EdgeChannel(Bench(load, clock, traits=Traits(counter_period_s=0.1, power_max_w=700.0)))
    record = Record(weird_tmp_path, spool=weird_tmp_path / "unused", channels=[channel])
    for step in range(1, 80):
        drive(channel, clock, 1.0 + step * 0.5)
        record.power()
    record.close()
    rows = [row.split(",") for row in (weird_tmp_path / "power.csv").read_text().splitlines()[2:]]
    times = [int(row[0]) * 1e-9 for row in rows]
    energy_j = sum(float(row[2]) * (b - a) for row, a, b in zip(rows[1:], times, times[1:], strict=False))
    truth_j = load.energy(times[-1]) - load.energy(times[0])
    assert energy_j == pytest.approx(truth_j, abs=40)
    assert len(rows) == pytest.approx(10 * 39, abs=5)


def test_windows_are_found_again_by_process_and_number(tmp_path: Path) -> None:
    record = Record(None, spool=tmp_path / "spool", channels=[])
    for number in (1, 2, 70_000):
        record.window({"id": f"42-{number}"}, {"energy_j": number / 2}, process=42, number=number)
    assert record.find(process=42, number=70_000) == {"id": "42-70000", "energy_j": 35_000.0}
    assert record.find(process=42, number=1) == {"id": "42-1", "energy_j": 0.5}
    assert record.find(process=42, number=3) is None
    assert record.find(process=43, number=1) is None
    record.close()
    head = json.loads((tmp_path / "spool").read_text().splitlines()[0])
    assert {"schema", "kind", "host", "monotonic_ns", "wall_ns", "devices"} <= set(head)


def test_without_a_folder_the_disk_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joulelab.meter.record.SPOOL", 10_000)
    records = {
        "spool": Record(None, spool=tmp_path / "spool", channels=[]),
        "windows.jsonl": Record(tmp_path, spool=tmp_path / "unused", channels=[]),
    }
    for name, record in records.items():
        for number in range(1, 2001):
            record.window({"id": f"42-{number}"}, {"energy_j": 1.0}, process=42, number=number)
        assert record.find(process=42, number=2000) == {"id": "42-2000", "energy_j": 1.0}
        kept = name != "spool"
        assert (record.find(process=42, number=1) is not None) == kept
        record.close()
        assert ((tmp_path / name).stat().st_size > 12_000) == kept
