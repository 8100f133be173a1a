# SPDX-License-Identifier: Apache-2.0
"""Progress in words, by a clock that the test moves."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from joulelab.launch.progress import Progress, Step
from joulelab.report.progress import PLAIN_EVERY_S, Story, live

if TYPE_CHECKING:
    from joulelab.records.parameter import Scalar


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def of(
    kind: str, index: int = 0, *, ended: int = 0, step: Step | None = None, state: str = "", text: str = ""
) -> Progress:
    settings: dict[str, Scalar] = {"batch_size": 20 * index} if index else {}
    return Progress(
        kind=kind, of=4, ended=ended, index=index, settings=settings, step=step, state=state, text=text
    )


def test_a_study_told_in_plain_lines() -> None:
    clock, file = Clock(), io.StringIO()
    with live(file=file, clock=clock) as show:
        show(of("plan", ended=1))
        show(of("start", 2, ended=1))
        show(of("step", 2, ended=1, step=Step(repeat=1, of=3, warmup=True, phase="train", epoch=1, epochs=4)))
        clock.now_s += PLAIN_EVERY_S
        step = Step(repeat=2, of=3, phase="train", epoch=3, epochs=4, loss=0.61234, accuracy=0.8345)
        show(of("step", 2, ended=1, step=step))
        clock.now_s += 5.0
        show(of("end", 2, ended=2, state="done"))
        show(of("start", 3, ended=2))
        clock.now_s += 10.0
        show(of("end", 3, ended=3, state="failed", text="out of memory"))
        show(of("wait", 4, ended=3, text="another process runs x"))
    assert file.getvalue().splitlines() == [
        "4 trials, 1 of them done already",
        # half of the trial's three repeats took 15 s, so this one has 15 s left, and two more of 30 s follow
        "trial 2 of 4: batch_size=40 | repeat 2 of 3 train epoch 3 of 4 | loss 0.6123 accuracy 0.835 | "
        "about 1 min 15 s left",
        "trial 2 of 4: batch_size=40: done in 20.0 s",
        "trial 3 of 4: batch_size=60: failed in 10.0 s: out of memory",
        "another process runs x",
    ]


def test_joules_stand_with_their_source_or_not_at_all() -> None:
    story = Story(clock=Clock())
    story.hear(Step(repeat=1, of=2, phase="end", energy_j=600.0, source="estimated"))
    story.hear(Step(repeat=2, of=2, phase="end", energy_j=640.0, source="estimated"))
    assert "1.24 kJ so far (estimated)" in story.now()
    silent = Story(clock=Clock())
    silent.hear(Step(repeat=1, of=2, phase="end", energy_j=600.0))
    assert " J" not in silent.now()


def test_time_left_of_a_single_trial() -> None:
    clock = Clock()
    story = Story(clock=clock)
    assert story.left_s() is None
    clock.now_s += 30.0
    story.hear(Step(repeat=2, of=4, phase="train", epoch=1, epochs=8))
    assert story.left_s() == 90.0


def test_time_left_from_trials_that_ended() -> None:
    clock = Clock()
    story = Story(clock=clock)
    story.hear(of("start", 1))
    clock.now_s += 40.0
    story.hear(of("end", 1, ended=1, state="done"))
    assert story.left_s() == 120.0
    story.hear(of("start", 2, ended=1))
    clock.now_s += 10.0
    assert story.left_s() == 110.0
    clock.now_s += 100.0
    assert story.left_s() == 80.0


def test_a_terminal_keeps_what_ended_and_redraws_seldom() -> None:
    clock, file = Clock(), Terminal()
    with live(file=file, clock=clock) as show:
        show(of("start", 1))
        drawn = file.getvalue()
        show(of("step", 1, step=Step(phase="train", repeat=1, of=1)))
        assert file.getvalue() == drawn
        clock.now_s += 1.0
        show(of("step", 1, step=Step(phase="evaluate", repeat=1, of=1)))
        assert "evaluate" in file.getvalue()
        show(of("end", 1, ended=1, state="done"))
    assert "batch_size=20: done in 1.00 s" in file.getvalue()


def test_trials_that_a_cluster_runs_side_by_side_have_times_of_their_own() -> None:
    clock, file = Clock(), io.StringIO()
    story = Story(clock=clock)
    with live(file=file, clock=clock) as show:
        for event, passed_s in [
            (of("start", 1), 4.0),
            (of("start", 2), 6.0),
            (of("end", 1, ended=1, state="done"), 2.0),
            (of("end", 2, ended=2, state="done"), 1.0),
            # Nobody looked while this one ran.
            (of("end", 3, ended=3, state="done"), 0.0),
        ]:
            show(event)
            story.hear(event)
            clock.now_s += passed_s
    assert file.getvalue().splitlines()[-3:] == [
        "trial 1 of 4: batch_size=20: done in 10.0 s",
        "trial 2 of 4: batch_size=40: done in 8.00 s",
        "trial 3 of 4: batch_size=60: done",
    ]
    # Four of 9 s each, two of them at a time.
    story = Story(clock=clock)
    for event in (of("start", 1), of("start", 2)):
        story.hear(event)
    clock.now_s += 9.0
    story.hear(of("end", 1, ended=1, state="done"))
    story.hear(of("start", 3, ended=1))
    left_s = story.left_s()
    assert left_s is not None
    assert abs(left_s - 3 * 9.0 / 2) < 0.1
