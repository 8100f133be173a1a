# SPDX-License-Identifier: Apache-2.0
"""How far a study or a trial is: a line that stays in its place on a terminal, plain lines elsewhere.

Nothing runs between two events. A display that refreshed itself would take time from the training it shows.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from joulelab.launch.progress import Progress, Step
from joulelab.report.numbers import duration, quantity, settings

Show = Callable[[Progress | Step], None]

# Plain lines go to files and logs: one that only says how far a trial is comes at most this often.
PLAIN_EVERY_S = 15.0
# A terminal is redrawn at most this often, for epochs may be short.
REDRAW_EVERY_S = 0.1


@contextlib.contextmanager
def live(*, file: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> Iterator[Show]:
    """What to call with each event. It writes to stderr: the table on stdout can be piped on."""
    to = file or sys.stderr
    story = Story(clock=clock)
    if not to.isatty():
        yield _Plain(story, to).show
        return
    console = Console(file=to, highlight=False, emoji=False)
    with Live(console=console, auto_refresh=False, transient=True) as display:
        yield _Moving(story, display).show


class Story:
    """What has been heard so far, and the words for it."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.trial: Progress | None = None
        self._step: Step | None = None
        self._began_s = {0: self.clock()}  # by the trial's place in the plan, of those that run
        self._took_s: list[float] = []
        self._lasted_s: float | None = None  # the trial that ended last
        self._energy_j: dict[str, float] = {}  # by source, of what ended since the command began

    def hear(self, event: Progress | Step) -> None:
        if isinstance(event, Step):
            self._step = event
            if event.energy_j is not None and event.source:
                self._energy_j[event.source] = self._energy_j.get(event.source, 0.0) + event.energy_j
            return
        self.trial = event
        if event.kind == "start":
            self._began_s[event.index], self._step = self.clock(), None
        elif event.kind == "step" and event.step is not None:
            self.hear(event.step)
        elif event.kind == "end":
            # A job of a cluster may have run while nobody looked.
            began_s = self._began_s.pop(event.index, None)
            self._lasted_s = None if began_s is None else self.clock() - began_s
            self._took_s += [self._lasted_s] if self._lasted_s is not None else []

    def now(self) -> str:
        """One line: which trial, where in it, joules so far, time left."""
        parts = [self._which(), *self._where(), *self._joules()]
        left_s = self.left_s()
        if left_s is not None:
            # A guess to a tenth of a second would promise too much.
            parts.append(f"about {f'{left_s:.0f} s' if left_s < 59.5 else duration(left_s)} left")
        return " | ".join(filter(None, parts))

    def left_s(self) -> float | None:
        """From how long trials took so far; None where nothing tells."""
        share = self._step.share() if self._step else 0.0
        running = [place for place in self._began_s if place]
        which = self.trial.index if self.trial else 0
        here_s = self.clock() - self._began_s.get(which, self._began_s[0])
        of = self.trial.of if self.trial else 1
        ended = self.trial.ended if self.trial else 0
        if self._took_s:
            each_s = sum(self._took_s) / len(self._took_s)
        elif share >= 0.1:
            each_s = here_s / share
        else:
            return None
        runs = self.trial is None or self.trial.kind in ("start", "step")
        left_s = max(0.0, (of - ended) * each_s - (min(here_s, each_s) if runs else 0.0))
        return left_s / max(1, len(running))  # side by side, where a cluster runs several

    def took(self) -> str:
        return f" in {duration(self._lasted_s)}" if self._lasted_s is not None else ""

    def _which(self) -> str:
        if self.trial is None or not self.trial.index:
            return ""
        return (
            f"trial {self.trial.index} of {self.trial.of}: {settings(self.trial.settings) or self.trial.name}"
        )

    def _where(self) -> list[str]:
        step = self._step
        if step is None:
            return ["starting"]
        words = []
        if step.repeat is not None:
            words.append(f"{'warm-up' if step.warmup else 'repeat'} {step.repeat} of {step.of}")
        if step.phase:
            words.append(step.phase)
        if step.epoch is not None:
            words.append(f"epoch {step.epoch} of {step.epochs}")
        figures = [f"loss {step.loss:.4g}"] if step.loss is not None else []
        figures += [f"accuracy {step.accuracy:.3f}"] if step.accuracy is not None else []
        return [" ".join(words), " ".join(figures)]

    def _joules(self) -> list[str]:
        return [f"{quantity(energy_j, 'J')} so far ({source})" for source, energy_j in self._energy_j.items()]


def said(event: Progress, story: Story) -> str:
    """The line that an event leaves behind; empty for those that only move the display."""
    if event.kind == "plan":
        done = f", {event.ended} of them done already" if event.ended else ""
        return f"{event.of} trial{'s' * (event.of != 1)}{done}"
    if event.kind == "end":
        reason = f": {event.text}" if event.text else ""
        which = settings(event.settings) or event.name
        return f"trial {event.index} of {event.of}: {which}: {event.state}{story.took()}{reason}"
    if event.kind in ("wait", "note"):
        return event.text
    return ""


class _Plain:
    def __init__(self, story: Story, file: TextIO) -> None:
        self._story = story
        self._file = file
        self._next_s = 0.0
        self._clock = story.clock

    def show(self, event: Progress | Step) -> None:
        self._story.hear(event)
        line = said(event, self._story) if isinstance(event, Progress) else ""
        if not line and self._clock() >= self._next_s:
            line = self._story.now()
        if line:
            self._next_s = self._clock() + PLAIN_EVERY_S
            self._file.write(line + "\n")
            self._file.flush()


class _Moving:
    def __init__(self, story: Story, display: Live) -> None:
        self._story = story
        self._display = display
        self._next_s = 0.0
        self._clock = story.clock

    def show(self, event: Progress | Step) -> None:
        self._story.hear(event)
        line = said(event, self._story) if isinstance(event, Progress) else ""
        if line:
            self._display.console.print(Text(line))
        if line or self._clock() >= self._next_s:
            self._next_s = self._clock() + REDRAW_EVERY_S
            self._display.update(Text(self._story.now(), no_wrap=False), refresh=True)
