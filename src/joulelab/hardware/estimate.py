# SPDX-License-Identifier: Apache-2.0
"""An estimate for machines without any energy sensor: CPU time and memory of processes, times rated power.

It does not measure anything: published comparisons of such models with meters differ by 27 to 40 %, and
idle power, turbo, vector units and all other parts of the machine are not in it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence

from joulelab.hardware.cpu_models import UNKNOWN_W, model_name, watts_per_thread
from joulelab.hardware.device import Device, Found, Traits
from joulelab.hardware.process_ledger import Ledger
from joulelab.hardware.process_tree import Snapshot, clock_s, follow, snapshot

RAM_W_PER_GIB = 0.375
GIB = 2**30
# A walk over the trees reads several files a process, so walks take no more than this share of one core; in
# between, the CPU clocks of the processes seen last are read, one call each. Children that were born or
# ended since the last walk show at the next one.
WALK_SHARE = 0.03
SHORTEST_WALK_S = 0.02


class Estimate(Device):
    """Joules of the watched process trees since they are watched; without a watch, of this process."""

    uid = "cpu:estimate"
    kind = "cpu"
    source = "estimated"

    def __init__(
        self,
        *,
        model: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        model = model or model_name()
        rated_w = watts_per_thread(model)
        self.watts_per_thread = rated_w or UNKNOWN_W
        known = "rated" if rated_w else "assumed, the model is not in the table"
        self.name = f"estimate for {model}"
        self.scope = (
            f"CPU time of the measured processes x {self.watts_per_thread:.3g} W a thread ({known})"
            f" + {RAM_W_PER_GIB} W a GiB of their memory; no idle power, nothing else of the machine"
        )
        self.traits = Traits(
            counter_period_s=SHORTEST_WALK_S,
            power_max_w=(os.cpu_count() or 1) * self.watts_per_thread + _memory_gib() * RAM_W_PER_GIB,
            gain_error=0.5,
        )
        self._clock = clock
        self._ledger = Ledger()
        self.ram_j = 0.0
        self._ram_w = 0.0
        self._read_s = clock()
        self._walk_due_s = 0.0
        self.watch((os.getpid(),))

    @classmethod
    def find(cls, argument: str = "") -> Found:
        """`argument` takes the place of the CPU's name."""
        return Found((cls(model=argument or None),))

    def watch(self, pids: Sequence[int]) -> None:
        """From now on the trees under `pids`; the counter goes on from where it stands."""
        self._walk()
        start_s = self._clock()
        now = snapshot(pids)
        self._ledger.rebase(now)
        self._note(now, start_s=start_s)

    def energy_j(self) -> float:
        own_s = self._clocks() if self._clock() < self._walk_due_s else None
        cpu_s = self._walk() if own_s is None else self._ledger.peek(own_s)
        self._charge_ram()
        return cpu_s * self.watts_per_thread + self.ram_j

    def _walk(self) -> float:
        start_s = self._clock()
        now = follow(self._ledger.seen)
        cpu_s = self._ledger.look(now)
        self._note(now, start_s=start_s)
        return cpu_s

    def _note(self, now: Snapshot, *, start_s: float) -> None:
        self._charge_ram()
        now_s = self._clock()
        self._walk_due_s = now_s + max(SHORTEST_WALK_S, (now_s - start_s) / WALK_SHARE)
        self._ram_w = _resident_b(now) / GIB * RAM_W_PER_GIB

    def _clocks(self) -> dict[int, float] | None:
        """Fresh CPU clocks of the processes seen last; None when one has gone, or elsewhere than on Linux."""
        if sys.platform != "linux":
            return None
        try:
            return {pid: clock_s(pid) for pid in self._ledger.seen}
        except OSError:
            return None

    def _charge_ram(self) -> None:
        now_s = self._clock()
        self.ram_j += self._ram_w * (now_s - self._read_s)
        self._read_s = now_s


def _resident_b(now: Snapshot) -> int:
    """Memory of the trees; pages that several of them may map count once, as much as the largest share."""
    return sum(p.private_b for p in now.values()) + max((p.shared_b for p in now.values()), default=0)


def _memory_gib() -> float:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
    except (AttributeError, OSError, ValueError):  # elsewhere than on Unix
        return 1024.0
