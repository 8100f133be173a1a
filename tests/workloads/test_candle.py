# SPDX-License-Identifier: Apache-2.0
"""What the CANDLE workloads share: when they end, and how few rows are too few."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from joulelab.errors import InputError
from joulelab.workloads import candle
from tests.workloads.candle_parts import setting


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("joulelab.workloads.candle.time.monotonic", lambda: now[0])
    return now


def ending(**more: Any) -> candle.Ending:
    return candle.Ending(setting(Path(), scale=1.0, batch_size=1, epochs=4, **more))


def test_the_last_epoch_is_that_of_the_knob(clock: list[float]) -> None:
    last = []
    end = ending()
    for epoch in range(1, 5):
        end.begin(epoch)
        clock[0] += 1e6
        last.append(end.decide())
    assert last == [False, False, False, True]
    assert end.over


def test_a_limit_ends_the_training_behind_the_epoch_in_which_it_is_reached(clock: list[float]) -> None:
    end = ending(stop_after=3600)
    last = []
    for epoch, took_s in enumerate((1800, 1799, 1), start=1):
        end.begin(epoch)
        clock[0] += took_s
        last.append(end.decide())
    assert last == [False, False, True]


def test_nine_rows_have_no_tenth(tmp_path: Path) -> None:
    candle.enough(tmp_path, 10)
    with pytest.raises(InputError, match="9 rows, of which a tenth"):
        candle.enough(tmp_path, 9)


def test_a_sum_that_overflows_is_no_gap() -> None:
    largest = np.full((2, 9), np.finfo(np.float32).max)
    table = candle.complete(Path("a.csv"), largest, device=torch.device("cpu"))
    assert torch.equal(table, torch.from_numpy(largest))
    largest[1, 3] = np.nan
    with pytest.raises(InputError, match=r"a\.csv: row 3, column 6: nan"):
        candle.complete(Path("a.csv"), largest, device=torch.device("cpu"), text=2)


def test_the_clock_of_a_training_goes_on_where_it_stood(clock: list[float]) -> None:
    one = ending(stop_after=100)
    one.begin(1)
    clock[0] += 70
    state = one.state()
    clock[0] += 5000  # on another day
    other = ending(stop_after=100)
    other.restore(state)
    other.begin(1)
    clock[0] += 29
    assert not other.decide()
    clock[0] += 1
    assert other.decide()


def test_files_are_known_by_their_length_and_their_time(tmp_path: Path) -> None:
    layout = candle.Layout(name="x", version=1, files={"a.csv": "numbers"})
    (tmp_path / "a.csv").write_text("1,2\n")
    here = setting(tmp_path, scale=1.0, batch_size=1, given=tmp_path)
    before = candle.marks(here, layout)
    assert before["a.csv"][0] == 4
    os.utime(tmp_path / "a.csv", ns=(1, 1))
    assert candle.marks(here, layout) == {"a.csv": (4, 1)}
