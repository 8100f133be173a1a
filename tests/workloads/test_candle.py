# SPDX-License-Identifier: Apache-2.0
"""What the CANDLE workloads share: when they end, and how few rows are too few."""

from __future__ import annotations

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
