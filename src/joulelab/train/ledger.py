# SPDX-License-Identifier: Apache-2.0
"""What the attempts at a trial drew: the part whose work was kept, and the part that was lost.

The sampler outlives a killed trial and ends its windows; they lie in the attempt's folder. From the window of
a repeat there and the part of it that a checkpoint kept, the lost part follows. Where the sampler died too,
nobody knows what was drawn, and the figures say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from joulelab.records import attempts, store
from joulelab.records.layout import TrialFolder
from joulelab.records.measurement import Measurement
from joulelab.train.job import add_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KILLED_TOO = "its record ends before it did"


class Ledger:
    """Which attempt began which repeats, and what their windows say."""

    def __init__(self, folder: TrialFolder, *, write: bool = True) -> None:
        self._folder = folder
        self.attempt = 1 + attempts.count(folder)
        folder.checkpoint.mkdir(parents=True, exist_ok=True)
        path = folder.checkpoint / "begun.jsonl"
        begun = [(line["attempt"], line["repeat"]) for line in store.read_lines(path)]
        self._begun = [(attempt, repeat) for attempt, repeat in begun if attempt < self.attempt]
        self._lines = store.Lines(path, kind="begun") if write else None

    def begin(self, repeat: int) -> None:
        """Before anything of the repeat is measured."""
        if self._lines is not None:
            self._lines.append({"attempt": self.attempt, "repeat": repeat})

    def restarts(self, repeat: int) -> int:
        """Earlier attempts that this repeat was under way in."""
        return sum(index == repeat for _, index in self._begun)

    def lost(self, repeat: int, kept: Mapping[int, Measurement]) -> Measurement | None:
        """What earlier attempts drew for it beyond what was kept of each; None where there were none."""
        found: list[Measurement] = []
        notes: list[str] = []
        for attempt in [number for number, index in self._begun if index == repeat]:
            drawn = self._drawn(attempt, repeat)
            if drawn is None:
                notes.append(f"attempt {attempt}: what its lost work drew is not known: {KILLED_TOO}")
            else:
                found.append(drawn.less(kept[attempt]) if attempt in kept else drawn)
        if not found and not notes:
            return None
        total = add_up(found) if found else Measurement(time_s=0.0, energy_j=None, energy_error_j=None)
        return _noted(_unknown(total) if notes else total, notes)

    def whole(self, here: Measurement, lost: Measurement | None) -> Measurement:
        """The trial over all its attempts, without what was lost; `here` is the attempt that ends it."""
        parts, notes = [here], []
        first = min((attempt for attempt, _ in self._begun), default=self.attempt)
        for attempt in range(first, self.attempt):
            drawn = next(iter(self._windows(attempt, "trial")), None)
            if drawn is None:
                notes.append(f"attempt {attempt}: what it drew is not known: {KILLED_TOO}")
            else:
                parts.append(drawn)
        total = add_up(parts)
        if lost is not None:
            total = total.less(lost)
        return _noted(_unknown(total) if notes else total, notes)

    def close(self) -> None:
        if self._lines is not None:
            self._lines.close()

    def _drawn(self, attempt: int, repeat: int) -> Measurement | None:
        begun = [index for number, index in self._begun if number == attempt]
        windows = self._windows(attempt, "repeat")
        place = begun.index(repeat)
        if place < len(windows):
            return windows[place]
        if self._windows(attempt, "trial"):
            # The sampler saw the end of the attempt: the repeat had not begun to be measured.
            return Measurement(time_s=0.0, energy_j=0.0, energy_error_j=0.0)
        return None

    def _windows(self, attempt: int, name: str) -> list[Measurement]:
        """The windows of this name, in the order in which they began."""
        aside = TrialFolder(attempts.earlier(self._folder, attempt))
        # Of several workers the first one: each has a window of the same machine.
        lines = [
            line
            for line in store.read_lines(aside.windows)
            if line.get("name") == name and not line.get("rank")
        ]
        return [_measurement(line) for line in sorted(lines, key=lambda line: line["start_ns"])]


def sum_of(parts: Sequence[Measurement | None]) -> Measurement | None:
    """The sum of those that there are."""
    there = [part for part in parts if part is not None]
    return add_up(there) if there else None


def _unknown(total: Measurement) -> Measurement:
    """Where a part of it is not known: a sum over the others would pass for all of it."""
    return msgspec.structs.replace(
        total, energy_j=None, energy_error_j=None, energy_j_by_device={}, power_w=None
    )


def _noted(total: Measurement, notes: Sequence[str]) -> Measurement:
    """With the notes; without what every window of a killed process says: that is what this is about."""
    flags = [flag for flag in total.flags if flag not in ("interrupted", "exception")]
    return msgspec.structs.replace(total, flags=(*flags, *notes))


def _measurement(line: dict[str, Any]) -> Measurement:
    return msgspec.convert({name: line[name] for name in Measurement.__struct_fields__}, Measurement)
