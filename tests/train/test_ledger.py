# SPDX-License-Identifier: Apache-2.0
"""What earlier attempts drew: kept, lost, or not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from joulelab.records import store
from joulelab.records.attempts import set_aside
from joulelab.records.layout import TrialFolder
from joulelab.records.measurement import Measurement
from joulelab.train.ledger import Ledger, sum_of

if TYPE_CHECKING:
    from pathlib import Path


def cost(time_s: float, energy_j: float | None, **more: Any) -> Measurement:
    given = {"time_s": time_s, "energy_j": energy_j, "energy_error_j": None if energy_j is None else 1.0}
    return Measurement(**{**given, **more})


def attempt(path: Path, repeats: list[int], windows: list[tuple[str, float, float]]) -> None:
    """An attempt that began these repeats, was killed, and whose sampler wrote these windows down."""
    folder = TrialFolder(path)
    ledger = Ledger(folder)
    for repeat in repeats:
        ledger.begin(repeat)
    ledger.close()
    folder.host.write_text("{}")
    lines = store.Lines(folder.windows, kind="windows")
    for number, (name, time_s, energy_j) in enumerate(windows):
        lines.append(
            {
                "name": name,
                # Windows are written when they end: the outermost last.
                "start_ns": 1000 * (name != "trial") + number,
                "time_s": time_s,
                "energy_j": energy_j,
                "energy_error_j": 1.0,
                "energy_j_by_device": {"a": energy_j},
                "power_w": energy_j / time_s,
                "source": "counter",
                "resolution_s": 0.1,
                "flags": ["interrupted"],
            }
        )
    lines.close()
    set_aside(folder)


def opened(path: Path) -> Ledger:
    ledger = Ledger(TrialFolder(path))
    ledger.close()
    return ledger


def test_a_trial_that_was_never_stopped_lost_nothing(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    assert (ledger.attempt, ledger.restarts(1), ledger.lost(1, {})) == (1, 0, None)
    here = cost(5.0, 50.0)
    assert ledger.whole(here, None) == here


def test_lost_is_what_was_drawn_without_what_was_kept(tmp_path: Path) -> None:
    attempt(tmp_path, [1, 2], [("repeat", 10.0, 100.0), ("repeat", 4.0, 40.0), ("trial", 15.0, 150.0)])
    attempt(tmp_path, [2], [("repeat", 3.0, 30.0), ("trial", 4.0, 35.0)])
    ledger = opened(tmp_path)
    assert ledger.attempt == 3
    assert (ledger.restarts(1), ledger.restarts(2)) == (1, 2)
    # Of the first attempt a checkpoint kept 25 J; the second was killed before it had written one.
    lost = ledger.lost(2, {1: cost(2.5, 25.0)})
    assert lost is not None
    assert (lost.time_s, lost.energy_j, lost.energy_error_j) == (1.5 + 3.0, 15.0 + 30.0, 1.0 + 1.0 + 1.0)
    assert lost.energy_j_by_device == {"a": 40.0 + 30.0}, "what was kept here names no devices"
    assert lost.flags == (), "that it was interrupted is what the figure says"
    whole = ledger.whole(cost(20.0, 200.0), lost)
    assert (whole.time_s, whole.energy_j) == (20.0 + 15.0 + 4.0 - 4.5, 200.0 + 150.0 + 35.0 - 45.0)


def test_where_the_sampler_died_too_nothing_is_guessed(tmp_path: Path) -> None:
    attempt(tmp_path, [1], [("repeat", 10.0, 100.0), ("trial", 11.0, 101.0)])
    attempt(tmp_path, [1], [])
    ledger = opened(tmp_path)
    lost = ledger.lost(1, {})
    assert lost is not None
    assert (lost.time_s, lost.energy_j, lost.energy_error_j) == (10.0, None, None)
    assert lost.flags == ("attempt 2: what its lost work drew is not known: its record ends before it did",)
    whole = ledger.whole(cost(20.0, 200.0), lost)
    assert (whole.energy_j, whole.energy_j_by_device) == (None, {})
    assert whole.flags[-1] == "attempt 2: what it drew is not known: its record ends before it did"


def test_a_repeat_that_was_announced_and_not_begun_cost_nothing(tmp_path: Path) -> None:
    attempt(tmp_path, [1], [("trial", 1.0, 10.0)])
    lost = opened(tmp_path).lost(1, {})
    assert lost is not None
    assert (lost.time_s, lost.energy_j) == (0.0, 0.0)


def test_an_attempt_on_another_kind_of_sensor_gives_no_sum(tmp_path: Path) -> None:
    attempt(tmp_path, [1], [("repeat", 10.0, 100.0), ("trial", 11.0, 101.0)])
    lost = opened(tmp_path).lost(1, {1: cost(1.0, 9.0, source="estimated")})
    assert lost is not None
    assert lost.energy_j is None


@pytest.mark.parametrize("parts", [[], [None, None]])
def test_of_nothing_there_is_no_sum(parts: list[Measurement | None]) -> None:
    assert sum_of(parts) is None
    assert sum_of([*parts, cost(1.0, 2.0)]) == cost(1.0, 2.0)
