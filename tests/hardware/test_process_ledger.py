# SPDX-License-Identifier: Apache-2.0
"""CPU time of made-up process trees: births, deaths, orphans, recycled numbers; each second counted once."""

from __future__ import annotations

import random

import pytest

from joulelab.hardware.process_ledger import Ledger
from joulelab.hardware.process_tree import Process, Snapshot


def process(pid: int, parent: int, own_s: float, ended_s: float = 0.0, *, started: float = 1.0) -> Process:
    return Process(
        pid=pid, started=started, parent=parent, own_s=own_s, ended_s=ended_s, private_b=0, shared_b=0
    )


def shot(*processes: Process) -> Snapshot:
    return {p.pid: p for p in processes}


def test_what_was_used_before_the_watch_does_not_count() -> None:
    ledger = Ledger()
    ledger.rebase(shot(process(1, 0, 100.0, 50.0)))
    assert ledger.look(shot(process(1, 0, 103.0, 50.0))) == pytest.approx(3.0)


def test_a_child_that_was_waited_for_counts_once() -> None:
    ledger = Ledger()
    ledger.rebase(shot(process(1, 0, 1.0)))
    assert ledger.look(shot(process(1, 0, 1.0), process(2, 1, 5.0))) == pytest.approx(5.0)
    assert ledger.look(shot(process(1, 0, 1.0, 6.0))) == pytest.approx(6.0)


def test_a_child_nobody_waited_for_keeps_its_last_known_time() -> None:
    ledger = Ledger()
    ledger.rebase(shot(process(1, 0, 1.0)))
    ledger.look(shot(process(1, 0, 1.0), process(2, 1, 5.0)))
    assert ledger.look(shot(process(1, 0, 2.0))) == pytest.approx(6.0)
    assert ledger.look(shot(process(1, 0, 3.0))) == pytest.approx(7.0)


def test_a_whole_branch_ends_between_two_looks() -> None:
    ledger = Ledger()
    ledger.rebase(shot(process(1, 0, 0.0)))
    ledger.look(shot(process(1, 0, 0.0), process(2, 1, 3.0), process(3, 2, 4.0), process(4, 3, 5.0)))
    assert ledger.look(shot(process(1, 0, 0.0, 12.5))) == pytest.approx(12.5)


def test_an_orphan_goes_on_counting_and_keeps_its_time() -> None:
    ledger = Ledger()
    ledger.rebase(shot(process(10, 1, 0.0)))
    ledger.look(shot(process(10, 1, 1.0), process(11, 10, 2.0)))
    orphan = process(11, 1, 4.0)
    assert ledger.look(shot(orphan)) == pytest.approx(5.0), "its parent's second stays, its own go on"
    assert ledger.look({}) == pytest.approx(5.0)


def test_a_recycled_number_is_another_process() -> None:
    ledger = Ledger()
    ledger.rebase(shot(process(1, 0, 0.0)))
    ledger.look(shot(process(1, 0, 0.0), process(2, 1, 5.0)))
    again = ledger.look(shot(process(1, 0, 0.0, 5.0), process(2, 1, 0.5, started=2.0)))
    assert again == pytest.approx(5.5)


def test_watching_others_goes_on_from_the_same_total() -> None:
    ledger = Ledger()
    ledger.rebase(shot(process(1, 0, 10.0)))
    ledger.look(shot(process(1, 0, 12.0)))
    ledger.rebase(shot(process(5, 0, 1000.0)))
    assert ledger.look(shot(process(5, 0, 1001.0))) == pytest.approx(3.0)


def test_peeking_takes_fresh_clocks_only() -> None:
    ledger = Ledger()
    ledger.rebase(shot(process(1, 0, 10.0)))
    assert ledger.peek({1: 10.5}) == pytest.approx(0.5)
    assert ledger.peek({}) == pytest.approx(0.5), "it never falls"
    assert ledger.look(shot(process(1, 0, 11.0))) == pytest.approx(1.0)


def test_random_trees_never_count_too_much_and_lose_nothing_that_was_seen() -> None:
    """A simulated system whose true total is known: the ledger lies between what can be seen and that."""
    for seed in range(30):
        rng = random.Random(seed)
        own: dict[int, float] = {1: 0.0}
        ended: dict[int, float] = {1: 0.0}
        parent: dict[int, int] = {1: 0}
        lost_s, number, ledger = 0.0, 1, Ledger()
        ledger.rebase(shot(process(1, 0, 0.0)))
        last_s = 0.0
        for _ in range(300):
            for pid in list(own):
                own[pid] += rng.random()
            if rng.random() < 0.6:
                number += 1
                parent[number] = rng.choice(list(own))
                own[number], ended[number] = 0.0, 0.0
            leaves = [p for p in own if p != 1 and p not in {parent[q] for q in own}]
            if leaves and rng.random() < 0.5:
                gone = rng.choice(leaves)
                used_s = own.pop(gone) + ended.pop(gone)
                if rng.random() < 0.8:
                    ended[parent[gone]] += used_s
                else:
                    lost_s += used_s
            if rng.random() < 0.3:
                total_s = ledger.look(shot(*(process(p, parent[p], own[p], ended[p]) for p in own)))
                true_s = sum(own.values()) + sum(ended.values()) + lost_s
                visible_s = true_s - lost_s
                assert visible_s - 1e-9 <= total_s <= true_s + 1e-9
                assert total_s >= last_s
                last_s = total_s
