# SPDX-License-Identifier: Apache-2.0
"""Somebody's Horovod timeline as table, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pytest

from joulelab.report import horovod
from tests.integrations.test_horovod import BOTH, SHORTENED, written

if TYPE_CHECKING:
    from pathlib import Path


def test_the_table_by_hand(weird_tmp_path: Path) -> None:
    said = horovod.text(written(weird_tmp_path / "t.json", BOTH), width=100)
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert lines[0] == "t.json: Horovod's timeline, 2 ranks"
    assert lines[1] == "together n size waited most moved last"
    assert lines[3] == "ALLREDUCE 2 400 B 50.0 ms 40.0 ms 15.0 ms 1 (100 %)"
    assert lines[4] == "GLOO_ALLREDUCE 2 - - - 10.0 ms -"
    assert lines[5] == "MEMCPY_IN_FUSION_BUFFER 1 - - - 2.00 ms -"
    assert lines[6] == "all 2 - 50.0 ms - 15.0 ms -"
    assert not any("missing" in line or "left out" in line for line in lines)


def test_it_fits_a_terminal() -> None:
    said = horovod.text(SHORTENED, width=80)
    assert "…" not in said
    assert "MEMCPY_OUT_FUSION_BUFFER" in said


@pytest.mark.parametrize(("events", "tensors"), [(BOTH[:9], "2 tensors"), (BOTH[:-1], "a tensor")])
def test_what_a_killed_run_leaves_is_said(
    tmp_path: Path, events: list[dict[str, object]], tensors: str
) -> None:
    path = written(tmp_path / "t.json", events)
    path.write_text(path.read_text().rstrip()[:-1])
    said = horovod.text(path, width=200)
    assert "the end of the file is missing" in said
    assert f"left out: what was going on with {tensors} when the record ended" in said
    assert (
        horovod.to_csv(path).splitlines()[0] == "name,operation,start_ns,waiting_s,moving_s,last_rank,size_b"
    )


def test_json_and_csv_say_the_same(tmp_path: Path) -> None:
    later = [
        {**BOTH[2], "ts": 70_000},
        {**BOTH[8], "ts": 71_000},
        {**BOTH[9], "ts": 72_000},
        {**BOTH[8], "ts": 74_000},
    ]
    path = written(tmp_path / "t.json", [*BOTH, *later])
    found = json.loads(horovod.to_json(path))
    assert found["together"][2] == {
        "name": "allreduce.bias", "operation": "ALLREDUCE", "start_ns": 70_000_000,
        "waiting_s": 0.001, "moving_s": 0.002, "last_rank": None, "size_b": None,
    }  # fmt: skip
    assert (found["ranks"], found["torn"], found["unfinished"]) == (2, False, 0)
    assert found["totals"][0]["parts"]["GLOO_ALLREDUCE"] == {"n": 2, "moving_s": 0.010}
    rows = list(csv.DictReader(io.StringIO(horovod.to_csv(path))))
    told = [
        {name: "" if value is None else str(value) for name, value in row.items()}
        for row in found["together"]
    ]
    assert rows == told
