# SPDX-License-Identifier: Apache-2.0
"""The checkpoints of a trial: over all its repeats, and over all attempts at it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from joulelab.errors import TrialError
from joulelab.records import store
from joulelab.records.layout import SCHEMA
from joulelab.records.trial import Repeat
from joulelab.train import checkpoint_file as file
from joulelab.train.checkpoint_writer import Writer
from joulelab.train.ledger import Ledger, sum_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from joulelab.records.layout import TrialFolder
    from joulelab.records.measurement import Measurement
    from joulelab.records.parameter import Scalar
    from joulelab.train.job import Tell
    from joulelab.train.stopping import Stopping


CLOSE_S = 10.0  # for a checkpoint that is being written when the trial ends otherwise than by its end


class _Finished(msgspec.Struct, kw_only=True):
    """The repeats that need not be done again, and their lines for metrics.jsonl."""

    spec: str = ""
    repeats: list[Repeat] = []
    lines: list[dict[str, Any]] = []
    schema: int = SCHEMA


@dataclass(kw_only=True)
class Checkpoints:
    """The checkpoints of a trial, over all its repeats and attempts."""

    folder: TrialFolder
    spec: str  # the trial's identity
    steps: int  # optimizer steps between two; 0: not by steps
    every_s: float  # 0: not by time
    keep: int
    stopping: Stopping
    say: Callable[[str], None]
    tell: Tell  # takes the lines for metrics.jsonl
    rank: int = 0  # the first one alone writes what belongs to the trial and not to a rank
    lines: list[dict[str, Any]] = field(default_factory=list)  # of the repeat under way

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self.writer = Writer(say=self.say)
        self._finished = _Finished(spec=self.spec)
        if self._path.exists():
            self._finished = store.read_json(self._path, _Finished)
            self.must_be_of(self._finished.spec)
        self.ledger = Ledger(self.folder, write=not self.rank)
        for line in self._finished.lines:
            self.tell(line)

    @property
    def root(self) -> Path:
        return self.folder.checkpoint

    @property
    def _path(self) -> Path:
        return self.root / "finished.json"

    def must_be_of(self, spec: str) -> None:
        """What was written for another trial is not taken, and not removed either."""
        if spec != self.spec:
            raise TrialError(
                f"{self.root} is of another trial ({spec}, and this is {self.spec})",
                cure=f"put back the spec.json that it was written under, or remove {self.root} to begin anew",
            )

    def done(self, index: int) -> Repeat | None:
        """The repeat, if an earlier attempt has finished it."""
        return next((repeat for repeat in self._finished.repeats if repeat.index == index), None)

    def begin(self, index: int) -> None:
        """Before a repeat is measured."""
        self.lines = []
        if not self.rank:
            self.ledger.begin(index)

    def epoch(self, line: dict[str, Any]) -> None:
        """A line for metrics.jsonl, which a later attempt may have to write again."""
        self.lines.append(line)
        self.tell(line)

    def end(self, repeat: Repeat) -> Repeat:
        """A repeat is over: what it cost beyond its total, and the promise that it is not done again."""
        restarts = self.ledger.restarts(repeat.index)
        if restarts and repeat.restarts == 0:
            # No checkpoint of it was there to go on from.
            lost = self.ledger.lost(repeat.index, {})
            repeat = msgspec.structs.replace(repeat, restarts=restarts, lost=lost)
        self._finished.repeats.append(repeat)
        self._finished.lines += self.lines
        if not self.rank:
            file.write_whole(self._path, msgspec.json.encode(self._finished))
            file.prune(self.root, repeat=repeat.index, keep=0)
        return repeat

    def whole(self, here: Measurement, repeats: list[Repeat]) -> tuple[Measurement, Measurement | None]:
        """What the trial cost over all attempts, and what was lost beside it."""
        lost = sum_of([repeat.lost for repeat in repeats])
        return self.ledger.whole(here, lost), lost

    def close(self) -> None:
        self.stopping.patience_s = 0.0
        # Whoever is stopped must not hang on a disk that does not answer.
        self.writer.wait(limit_s=CLOSE_S)
        self.ledger.close()

    def discard(self) -> None:
        """The trial is done: nothing goes on from here."""
        if not self.rank:
            shutil.rmtree(self.root, ignore_errors=True)


def opened(
    folder: TrialFolder,
    *,
    spec: str,
    knobs: Mapping[str, Scalar],
    stopping: Stopping,
    say: Callable[[str], None],
    tell: Tell,
    rank: int = 0,
) -> Checkpoints | None:
    """The checkpoints that the knobs ask for; None where they ask for none."""
    steps = int(knobs.get("checkpoint_steps", 0))
    every_s = 60.0 * float(knobs.get("checkpoint_minutes", 0.0))
    if not steps and not every_s:
        return None
    return Checkpoints(
        folder=folder,
        spec=spec,
        steps=steps,
        every_s=every_s,
        keep=int(knobs.get("checkpoint_keep", 2)),
        stopping=stopping,
        say=say,
        tell=tell,
        rank=rank,
    )
