# SPDX-License-Identifier: Apache-2.0
"""Few reads, and still every edge."""

from __future__ import annotations

from joulelab.meter.lock import Lock
from tests.meter.loads import Counter, constant, locked, ns

MS = 1_000_000


def test_the_edge_lies_within_what_is_said() -> None:
    counter = Counter(constant(60), jitter_s=0.003)
    moves = [ns(move) for move in counter.moves]
    curve, lock, _ = locked(counter, 50.0)
    assert lock.edges > 350
    for time_ns, half_ns in zip(curve._time, curve._half, strict=True):
        assert any(abs(time_ns - move_ns) <= half_ns for move_ns in moves)


def test_a_period_that_is_not_quite_as_stated_is_learnt() -> None:
    counter = Counter(constant(60), period_s=0.09995)
    _, lock, reads = locked(counter, 50.0, read_s=0.00002)
    assert abs(lock.period_ns - 99.95 * MS) < 0.002 * MS
    assert reads < 3 * 10 * 50


def test_a_counter_that_stands_still_is_read_seldom() -> None:
    lock = Lock(0.1)
    now_ns = reads = 0
    while now_ns < 60_000 * MS:
        now_ns = max(now_ns + 1, lock.next_ns)
        assert lock.see(now_ns, half_ns=0, moved=False) is None
        reads += 1
    assert reads < 700


def _run(lock: Lock, *, until_ms: int, from_ns: int = 0, value: int = 0) -> tuple[int, int, list[int]]:
    """A counter that moves every 100 ms at 37 ms; edges found."""
    now_ns, edges = from_ns, []
    while now_ns < until_ms * MS:
        now_ns = max(now_ns + 1000, lock.next_ns)
        new = (now_ns - 37 * MS) // (100 * MS)
        edge = lock.see(now_ns, half_ns=1000, moved=new != value)
        value = new
        if edge is not None:
            edges.append(edge.time_ns)
    return now_ns, value, edges


def test_at_rest_it_reads_next_to_nothing_and_still_finds_the_next_edge() -> None:
    lock = Lock(0.1)
    now_ns, value, _ = _run(lock, until_ms=3000)
    lock.rest(now_ns + 2000 * MS)
    # The edge that is being looked for is still found; then there is peace.
    now_ns, value, _ = _run(lock, until_ms=3200, from_ns=now_ns, value=value)
    _, _, edges = _run(lock, until_ms=5300, from_ns=now_ns, value=value)
    assert 1 <= len(edges) <= 3
    assert all((edge - 36 * MS) % (100 * MS) < 2 * MS for edge in edges)


def test_it_can_be_woken() -> None:
    lock = Lock(0.1)
    now_ns, value, _ = _run(lock, until_ms=3000)
    lock.rest(now_ns + 5000 * MS)
    now_ns, value, _ = _run(lock, until_ms=3200, from_ns=now_ns, value=value)
    lock.wake(now_ns)
    assert lock.next_ns - now_ns < 120 * MS
