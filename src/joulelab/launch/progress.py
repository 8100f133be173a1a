# SPDX-License-Identifier: Apache-2.0
"""What is told while trials run: by a worker of its own trial, and by a study of all of them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from joulelab.records.parameter import Scalar


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Where a trial is, as its worker says it in lines of JSON on its standard output."""

    repeat: int | None = None
    of: int | None = None
    warmup: bool = False
    phase: str = ""
    epoch: int | None = None
    epochs: int | None = None
    loss: float | None = None
    accuracy: float | None = None
    energy_j: float | None = None  # of the repeat that has just ended
    source: str = ""  # of that energy; joules without one are not shown

    def share(self) -> float:
        """How much of the trial lies behind, between 0 and 1, as far as repeats and epochs tell."""
        if not self.of or self.repeat is None:
            return 0.0
        inside = (self.epoch - 1) / self.epochs if self.epochs and self.epoch else 0.0
        return min(1.0, max(0.0, (self.repeat - 1 + inside) / self.of))


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened in a study."""

    kind: (
        str  # plan: all trials are known; start, step, end: of one trial; wait: others run what is left; note
    )
    of: int  # trials in the plan
    ended: int = 0  # of them, how many need nothing more
    index: int = 0  # the trial's place in the plan, from 1
    name: str = ""  # of the trial's folder
    settings: dict[str, Scalar] = {}  # what varies in the study, as this trial has it
    step: Step | None = None
    state: str = ""  # at the end: done, invalid or failed
    text: str = ""  # why it failed; what is waited for


OnStep = Callable[[Step], None]
OnProgress = Callable[[Progress], None]


class _Line(msgspec.Struct):
    progress: Step


def ignore(event: object) -> None:
    """For whoever does not want to know."""
    del event


def parse_step(line: bytes) -> Step | None:
    """The step in a line of a worker's output; None for any other line, such as a user's print."""
    try:
        return msgspec.json.decode(line, type=_Line).progress
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
