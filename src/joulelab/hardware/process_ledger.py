# SPDX-License-Identifier: Apache-2.0
"""From looks at process trees to the CPU time they used, each second of it counted once. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from joulelab.hardware.process_tree import Process, Snapshot


class Ledger:
    """CPU seconds of the trees since they were first watched; never falls.

    A child that ends either hands its time to the parent that waits for it (then the parent's `ended_s`
    grows) or to nobody. Its last known time is kept only as far as no parent's growth explains it.
    """

    def __init__(self) -> None:
        self._seen: Snapshot = {}
        self._kept_s = 0.0  # of processes that went without anybody taking their time
        self._before_s = 0.0  # used before the watch began
        self._total_s = 0.0

    @property
    def seen(self) -> Snapshot:
        """The processes of the last look."""
        return self._seen

    def look(self, now: Snapshot) -> float:
        """Take in a look at all watched trees; the CPU seconds used since the watch began."""
        charged: dict[int | None, float] = {}
        for pid, gone in self._seen.items():
            if not _same(gone, now.get(pid)):
                heir = self._heir(gone, now)
                charged[heir] = charged.get(heir, 0.0) + gone.own_s + gone.ended_s
        for heir, lost_s in charged.items():
            taken_s = now[heir].ended_s - self._seen[heir].ended_s if heir is not None else 0.0
            self._kept_s += max(0.0, lost_s - taken_s)
        self._seen = dict(now)
        raw_s = self._kept_s + sum(p.own_s + p.ended_s for p in now.values())
        self._total_s = max(self._total_s, raw_s - self._before_s)
        return self._total_s

    def peek(self, own_s: dict[int, float]) -> float:
        """The total with fresher own times of the processes seen last; nothing else is taken in."""
        seen = self._seen.values()
        raw_s = self._kept_s + sum(max(p.own_s, own_s.get(p.pid, 0.0)) + p.ended_s for p in seen)
        self._total_s = max(self._total_s, raw_s - self._before_s)
        return self._total_s

    def rebase(self, now: Snapshot) -> None:
        """Watch other trees from here on: what they used so far does not count, what was counted stays."""
        self._seen = dict(now)
        raw_s = self._kept_s + sum(p.own_s + p.ended_s for p in now.values())
        self._before_s = raw_s - self._total_s

    def _heir(self, gone: Process, now: Snapshot) -> int | None:
        """The nearest ancestor that was seen before and still lives: its `ended_s` may hold the time."""
        parent, steps = gone.parent, 0
        while parent in self._seen and steps < len(self._seen):
            if _same(self._seen[parent], now.get(parent)):
                return parent
            parent, steps = self._seen[parent].parent, steps + 1
        return None


def _same(a: Process, b: Process | None) -> bool:
    return b is not None and a.started == b.started
