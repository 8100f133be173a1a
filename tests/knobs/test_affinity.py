# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import sys

import pytest

from joulelab.knobs.affinity import Affinity, block

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="cores are chosen on Linux only")


def test_blocks_do_not_overlap_and_are_of_one_size() -> None:
    cores = [0, 1, 2, 3, 8, 9, 10]
    assert [block(cores, n, 3) for n in range(3)] == [[0, 1], [2, 3], [8, 9]]


def test_a_worker_keeps_to_its_block_and_what_was_found_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("there is one core")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    knob = Affinity()
    assert knob.available("blocks") == ""
    with knob.applied("blocks"):
        assert os.sched_getaffinity(0) == set(block(sorted(before), 1, 2))
    assert os.sched_getaffinity(0) == before
    with knob.applied("off"):
        assert os.sched_getaffinity(0) == before


def test_more_workers_than_cores_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "100000")
    assert "100000 workers" in Affinity().available("blocks")
    assert Affinity().available("off") == ""
