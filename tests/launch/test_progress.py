# SPDX-License-Identifier: Apache-2.0
"""A worker's lines are read as far as they are known, and anything else is left alone."""

from __future__ import annotations

from joulelab.launch.progress import Step, parse_step


def test_reads_a_step_and_passes_over_what_it_does_not_know() -> None:
    assert parse_step(b'{"progress": {"epoch": 2, "loss": 0.5, "new": []}}') == Step(epoch=2, loss=0.5)


def test_other_lines_are_no_steps() -> None:
    for line in (b"progress", b"", b'{"progress": {"epoch": 2', b'{"progress": 3}', b"\xff"):
        assert parse_step(line) is None


def test_share_of_a_trial_that_lies_behind() -> None:
    assert Step().share() == 0.0
    assert Step(repeat=1, of=2, epoch=1, epochs=4).share() == 0.0
    assert Step(repeat=2, of=2, epoch=3, epochs=4).share() == 0.75
    assert Step(repeat=9, of=2).share() == 1.0
