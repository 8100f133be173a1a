# SPDX-License-Identifier: Apache-2.0
"""Who was waited for and how long: from events written by hand, and from a delay that was planted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from joulelab.analysis.timeline import by_name, collectives, events, offset_at
from joulelab.errors import InputError
from joulelab.records import ranks, store
from joulelab.records.layout import TrialFolder
from joulelab.report import timeline as report

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000


def worker(folder: TrialFolder, rank: int, lines: list[dict[str, Any]], *, offset_ns: int = 0) -> None:
    clock = {"offset_ns": offset_ns, "error_ns": 1000}
    record = ranks.RankRecord(
        rank=rank, ranks=2, local_rank=rank, host="a", pid=rank, device="cpu", state="done",
        clocks=({**clock, "at_ns": 0}, {**clock, "at_ns": 1000 * MS}),
    )  # fmt: skip
    ranks.write(folder, record)
    file = store.Lines(folder.events_of(rank), kind="events")
    for line in lines:
        file.append(line)
    file.close()


def together(name: str, start_ms: float, end_ms: float, *, step: int = 1) -> dict[str, Any]:
    times = {"start_ns": round(start_ms * MS), "end_ns": round(end_ms * MS)}
    return {"kind": "collective", "name": name, "epoch": 1, "step": step, "size_b": 100, **times}


def test_waiting_moving_and_the_last_by_hand(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    # The second worker's clock is 100 ms ahead of the first one's.
    worker(folder, 0, [together("allreduce 0", 10, 33), together("allreduce 0", 50, 60, step=2)])
    worker(
        folder,
        1,
        [together("allreduce 0", 130, 134), together("allreduce 0", 149, 160, step=2)],
        offset_ns=-100 * MS,
    )
    first, second = collectives(folder).to_dicts()
    assert (first["step"], first["workers"], first["last_rank"], first["size_b"]) == (1, 2, 1, 100)
    assert (first["waiting_s"], first["waiting_mean_s"], first["moving_s"]) == pytest.approx(
        (0.020, 0.010, 0.004)
    )
    assert first["behind_s"] == pytest.approx(0.020)
    assert (second["last_rank"], second["waiting_s"], second["moving_s"]) == pytest.approx((0, 0.001, 0.010))
    (row,) = by_name(folder).to_dicts()
    assert (row["n"], row["waiting_most_s"], row["last_share"]) == pytest.approx((2, 0.020, 0.5))
    said = report.text(folder, width=120)
    assert "2 workers" in said
    assert "allreduce 0" in said
    assert "clocks agree within 1.00 µs" in said


def test_drift_goes_in_a_straight_line() -> None:
    clocks = [
        {"at_ns": 0, "offset_ns": 100, "error_ns": 5},
        {"at_ns": 1000, "offset_ns": 300, "error_ns": 7},
    ]
    assert offset_at(500, clocks) == (200, 7)
    assert offset_at(1000, clocks) == (300, 7)
    assert offset_at(7, clocks[:1]) == (100, 5)
    assert offset_at(7, []) == (0, 0)


def test_what_a_death_has_torn_is_left_out(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    worker(folder, 0, [together("allreduce 0", 1, 2), together("allreduce 0", 5, 6, step=2)])
    worker(folder, 1, [together("allreduce 0", 1, 2)])
    assert collectives(folder)["step"].to_list() == [1]


def test_repeats_do_not_mix(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    both = [together("allreduce 0", 1, 2), together("allreduce 0", 101, 102)]
    worker(folder, 0, both)
    worker(folder, 1, both)
    assert collectives(folder)["waiting_s"].to_list() == pytest.approx([0.0, 0.0])


def test_no_events_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no events of several workers"):
        collectives(TrialFolder(tmp_path))


def between_s(folder: TrialFolder, what: str) -> float:
    """From the moment that the first worker noted to that of the second."""
    first, second = (int((folder.path / "data" / f"{what}-{rank}").read_text()) for rank in (0, 1))
    return (second - first) * 1e-9


def test_a_planted_delay_comes_back_with_its_worker(tmp_path: Path) -> None:
    from tests.train.test_distributed import train

    folder = train(tmp_path / "trial", ":Late", workers=2, timeline_every=2)
    assert folder.done.exists(), folder.log.read_text()
    broadcast = next(row for row in collectives(folder).to_dicts() if row["name"] == "broadcast")
    assert broadcast["last_rank"] == 1
    # A sleep of half a second takes as long as the machine likes: what is compared is when each worker had
    # made its model, by its own word. Ten runs at a load of 1 were -0.08 to 0.06 ms off, and -0.19 to 0.68 ms
    # from the difference in loading.
    assert broadcast["waiting_s"] == pytest.approx(between_s(folder, "made"), abs=0.005)
    assert between_s(folder, "loaded") > 0.4
    noted = events(folder)
    assert set(noted.filter(noted["kind"] == "span")["name"]) == {"data", "forward", "backward", "update"}
    assert set(noted["rank"]) == {0, 1}
    assert set(noted.filter(noted["kind"] == "span")["step"]) == {2, 4, 6, 8}, "of nine"
