# SPDX-License-Identifier: Apache-2.0
"""Horovod's timeline: small ones with figures worked out by hand, torn ones, and one that Horovod wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from joulelab.errors import InputError
from joulelab.integrations.horovod import Part, Timeline, merged_s, read, size_b

SHORTENED = Path(__file__).with_name("recorded") / "horovod.json"
RECORDED = Path(__file__).parents[2].parent / "shared" / "recorded" / "horovod_timeline_2ranks_gloo.json"


def tensor(pid: int, name: str) -> dict[str, Any]:
    return {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}


def begin(pid: int, name: str, time_us: int) -> dict[str, Any]:
    return {"ph": "B", "name": name, "ts": time_us, "pid": pid}


def end(pid: int, time_us: int, **args: str) -> dict[str, Any]:
    return {"ph": "E", "ts": time_us, "pid": pid, **({"args": args} if args else {})}


def ready(pid: int, rank: int, time_us: int) -> dict[str, Any]:
    return {"ph": "X", "name": str(rank), "ts": time_us, "pid": pid, "dur": 0}


START = {
    "name": "process_name",
    "ph": "M",
    "pid": 0,
    "args": {"start_time_since_epoch_in_micros": 1_700_000_000_000_000},
}
# Two tensors that two ranks make alike; the second rank comes 30 ms after the first, and 40 ms after it.
BOTH = [
    START,
    tensor(1, "allreduce.bias"),
    begin(1, "NEGOTIATE_ALLREDUCE", 1_000),
    ready(1, 0, 1_000),
    tensor(2, "allreduce.weight"),
    begin(2, "NEGOTIATE_ALLREDUCE", 11_000),
    ready(2, 0, 11_000),
    ready(1, 1, 31_000),
    end(1, 31_000),
    begin(1, "ALLREDUCE", 32_000),
    begin(1, "GLOO_ALLREDUCE", 33_000),
    {"ph": "i", "name": "CYCLE_START", "ts": 34_000, "s": "g"},
    ready(2, 1, 51_000),
    end(2, 51_000),
    end(1, 36_000),
    end(1, 37_000, dtype="float32", shape="[10]"),
    begin(2, "ALLREDUCE", 51_000),
    begin(2, "MEMCPY_IN_FUSION_BUFFER", 51_000),
    end(2, 53_000),
    begin(2, "GLOO_ALLREDUCE", 53_000),
    end(2, 60_000),
    end(2, 61_000, dtype="float16", shape="[10, 20]"),
]


def written(path: Path, events: list[dict[str, Any]]) -> Path:
    """As Horovod lays it out: a line an event, mostly."""
    path.write_text("[\n" + ",\n".join(json.dumps(event) for event in events) + "]\n", encoding="utf-8")
    return path


def figures(found: Timeline) -> list[tuple[Any, ...]]:
    return [
        (row.name, row.start_ns, row.waiting_s, row.moving_s, row.last_rank, row.size_b) for row in found.rows
    ]


def test_waiting_moving_and_the_last_by_hand(weird_tmp_path: Path) -> None:
    found = read(written(weird_tmp_path / "timeline.json", BOTH))
    assert figures(found) == [
        ("allreduce.bias", 1_000_000, 0.030, 0.005, 1, 40),
        ("allreduce.weight", 11_000_000, 0.040, 0.010, 1, 400),
    ]
    assert (found.began_ns, found.ranks) == (1_700_000_000_000_000_000, 2)
    assert (found.unfinished, found.torn) == (0, False)
    each, overall = found.totals
    # They wait from 1 to 31 and from 11 to 51, which is 50 ms of the clock and not 70.
    assert (each.operation, each.n, each.waiting_s, each.moving_s) == ("ALLREDUCE", 2, 0.050, 0.015)
    assert (overall.operation, overall.n, overall.waiting_s, overall.moving_s) == ("all", 2, 0.050, 0.015)
    assert each.parts == {
        "GLOO_ALLREDUCE": Part(n=2, moving_s=0.010),
        "MEMCPY_IN_FUSION_BUFFER": Part(n=1, moving_s=0.002),
    }


def test_later_ones_do_not_say_who_was_late(tmp_path: Path) -> None:
    again = [
        begin(1, "NEGOTIATE_ALLREDUCE", 70_000),
        end(1, 75_000),
        begin(1, "ALLREDUCE", 75_000),
        end(1, 76_000),
    ]
    third = [
        begin(1, "NEGOTIATE_ALLREDUCE", 80_000),
        ready(1, 1, 80_000),
        end(1, 81_000),
        begin(1, "ALLREDUCE", 81_000),
    ]
    found = read(written(tmp_path / "t.json", [*BOTH, *again, *third, end(1, 82_000)]))
    assert figures(found)[2:] == [
        ("allreduce.bias", 70_000_000, 0.005, 0.001, None, None),
        ("allreduce.bias", 80_000_000, 0.001, 0.001, None, None),
    ], "one rank of two was named: the other may have come later"


def test_ranks_come_in_any_order(tmp_path: Path) -> None:
    first = [begin(1, "NEGOTIATE_BROADCAST", 0), ready(1, 2, 1), ready(1, 0, 5), ready(1, 1, 9), end(1, 9)]
    found = read(written(tmp_path / "t.json", [*first, begin(1, "BROADCAST", 9), end(1, 10)]))
    (row,) = found.rows
    assert (found.ranks, row.last_rank, row.operation, row.name) == (3, 1, "BROADCAST", "")
    assert found.began_ns is None, "older versions do not say it"


def test_switched_on_in_the_middle(tmp_path: Path) -> None:
    torn_head = [end(2, 100), begin(2, "ALLREDUCE", 200), end(2, 700)]
    found = read(written(tmp_path / "t.json", [tensor(2, "x"), *torn_head, *BOTH]))
    assert figures(found)[0] == ("x", 200_000, None, 0.0005, None, None)
    assert found.totals[0].waiting_s == 0.050


def test_every_tear_leaves_what_was_whole_before_it(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.json", BOTH).read_text()
    path, seen = tmp_path / "torn.json", set()
    for cut in range(whole.index("NEGOTIATE"), len(whole.rstrip())):
        path.write_text(whole[:cut])
        try:
            found = read(path)
        except InputError:
            assert cut < whole.index(json.dumps(BOTH[2])) + len(json.dumps(BOTH[2]))
            continue
        assert found.torn
        assert figures(found) == figures(read(tmp_path / "whole.json"))[: len(found.rows)]
        seen.add((len(found.rows), found.unfinished))
    assert seen == {(0, 1), (0, 2), (1, 1), (2, 0)}


def test_between_waiting_and_moving_is_unfinished(tmp_path: Path) -> None:
    found = read(written(tmp_path / "t.json", BOTH[:9]))
    assert (found.rows, found.unfinished, found.ranks) == ((), 2, None)
    assert found.totals[0].n == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no list of events"),
        (b'{"traceEvents": []}', "no list of events"),
        (b"[]", "no NEGOTIATE_ event"),
        (b"[" * 100_000, "no NEGOTIATE_ event"),
        (
            b'[1, "NEGOTIATE_ALLREDUCE", {"ph": "X", "pid": 1, "ts": 1, "name": "step"}]',
            "no NEGOTIATE_ event",
        ),
        (b'[{"ph": "B", "pid": 1, "ts": "soon", "name": "NEGOTIATE_ALLREDUCE"}]', "no NEGOTIATE_ event"),
        (b"\x80\x81[", "it is not text"),
    ],
)
def test_what_is_none_is_refused_in_words(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said) as refused:
        read(path)
    assert str(path) in refused.value.message
    assert "HOROVOD_TIMELINE" in refused.value.cure
    with pytest.raises(InputError, match=r"gone\.json cannot be read: No such file"):
        read(tmp_path / "gone.json")


@pytest.mark.parametrize(
    ("intervals", "seconds"),
    [
        ([], 0.0),
        ([(0, 10), (20, 30)], 20e-6),
        ([(20, 30), (0, 25)], 30e-6),
        ([(0, 100), (10, 20), (90, 110)], 110e-6),
        ([(5, 5), (5, 5)], 0.0),
    ],
)
def test_what_overlaps_counts_once(intervals: list[tuple[int, int]], seconds: float) -> None:
    assert merged_s(intervals) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("kind", "shape", "size"),
    [
        ("float32", "[1024, 1024]", 1 << 22),
        ("bfloat16", "[3]", 6),
        ("uint8", "[]", 1),
        ("bool", "[7]", 7),
        ("float32", "", None),
        ("<unknown>", "[3]", None),
    ],
)
def test_size_where_kind_and_shape_are_said(kind: str, shape: str, size: int | None) -> None:
    assert size_b({"dtype": kind, "shape": shape}) == size


@pytest.mark.skipif(
    not RECORDED.exists(), reason="the recorded timeline lies beside the repository, and is not there"
)
def test_one_that_horovod_wrote() -> None:
    """Two ranks over gloo, five layers; the second one came 2.7 s after the first, and ten steps followed."""
    found = read(RECORDED)
    broadcast, allreduce, overall = found.totals
    assert (found.ranks, found.unfinished, found.torn, len(found.rows)) == (2, 0, False, 110)
    assert (broadcast.operation, broadcast.n, broadcast.parts["GLOO_BCAST"].n) == ("BROADCAST", 10, 10)
    assert (allreduce.operation, allreduce.n, allreduce.parts["GLOO_ALLREDUCE"].n) == ("ALLREDUCE", 100, 100)
    assert broadcast.waiting_s == pytest.approx(2.706761, abs=1e-9), "4,191,475 - 1,484,714 µs"
    assert sum(row.waiting_s or 0.0 for row in found.rows[:10]) == pytest.approx(27.0675, abs=1e-4)
    assert (broadcast.moving_s, allreduce.waiting_s, allreduce.moving_s) == (0.043113, 0.320051, 0.181450)
    assert (overall.waiting_s, overall.moving_s) == pytest.approx((3.026812, 0.224563))
    assert {row.last_rank for row in found.rows[:20]} == {1}, "the first time, Horovod says who was last"
    assert {row.last_rank for row in found.rows[20:]} == {None}
    largest = max(found.rows, key=lambda row: row.size_b or 0)
    assert (largest.name, largest.size_b) == ("allreduce.3.weight", 1 << 22)


def test_four_tensors_of_it() -> None:
    """Horovod 0.28.1 with torch wrote it: all events of four of its twenty tensors, as they were."""
    found = read(SHORTENED)
    assert [(total.operation, total.n) for total in found.totals] == [
        ("BROADCAST", 2),
        ("ALLREDUCE", 20),
        ("all", 22),
    ]
    assert found.totals[0].waiting_s == pytest.approx(4.191469 - 1.484714)
    assert {row.last_rank for row in found.rows[:4]} == {1}
    assert {row.last_rank for row in found.rows[4:]} == {None}
    assert {row.size_b for row in found.rows[2:]} == {4096, 1 << 22}
