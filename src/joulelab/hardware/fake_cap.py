# SPDX-License-Identifier: Apache-2.0
"""When a fake device was capped to what: lines beside its file, so that all processes draw the same curve."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from joulelab.errors import SensorError
from joulelab.hardware.loads import Load, limited
from joulelab.records.process import boot_id

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from joulelab.hardware.device import Limits


class CapLog:
    """The limits that a file gives, and the changes since: lines of boot, monotonic ns, W."""

    def __init__(self, path: Path, limits: Limits, *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.path = path
        self._limits = limits
        self.first_w = limits.now_w
        self._clock = clock
        self._boot = boot_id()
        self._size = 0
        self._changes: list[tuple[float, float]] = []  # seconds, watts from then on

    def changes(self) -> list[tuple[float, float]]:
        """Those of this start of the machine: the clock began anew with it, and so did the device."""
        try:
            size = self.path.stat().st_size
        except OSError:
            size = 0
        if size != self._size:
            *lines, _ = self.path.read_text(encoding="ascii").split("\n") if size else [""]
            rows = [line.split() for line in lines]
            self._changes = [(int(ns) / 1e9, float(watts)) for boot, ns, watts in rows if boot == self._boot]
            self._size = size
        return self._changes

    def limits(self) -> Limits:
        changes = self.changes()
        return replace(self._limits, now_w=changes[-1][1]) if changes else self._limits

    def put(self, power_w: float) -> None:
        if not self._limits.min_w <= power_w <= self._limits.max_w:
            raise SensorError(
                f"{self.path.name}: {power_w:g} W is not legal",
                cure=f"legal: {self._limits.min_w:g} to {self._limits.max_w:g} W",
            )
        try:
            with self.path.open("a", encoding="ascii") as file:
                file.write(f"{self._boot} {self._clock()} {power_w:g}\n")
        except OSError as error:
            raise SensorError(
                f"{self.path}, where the cap of a fake device is noted, cannot be written: {error.strerror}",
                cure="copy the fake's file to a folder of your own, and name it there",
            ) from error


class CappedLoad:
    """A load as it is drawn under the caps of a log. What was drawn before a change stays as it was."""

    def __init__(self, load: Load, log: CapLog) -> None:
        self._load = load
        self._log = log
        self._limited: dict[float, Load] = {}

    def integral_j(self, a_s: float, b_s: float) -> float:
        energy_j = 0.0
        changes = self._log.changes()
        # Before the first change, the limit of the file holds.
        spans = [(float("-inf"), self._log.first_w), *changes]
        for (start_s, power_w), (end_s, _) in zip(spans, [*spans[1:], (float("inf"), 0.0)], strict=True):
            from_s, to_s = max(a_s, start_s), min(b_s, end_s)
            if to_s > from_s:
                energy_j += self._under(power_w).integral_j(from_s, to_s)
        return energy_j

    def mean_w(self, a_s: float, b_s: float) -> float:
        if b_s > a_s:
            return self.integral_j(a_s, b_s) / (b_s - a_s)
        power_w = next((w for t, w in reversed(self._log.changes()) if t <= b_s), self._log.first_w)
        return self._under(power_w).power_w(b_s)

    def _under(self, power_w: float) -> Load:
        if power_w >= self._load.max_w:
            return self._load
        if power_w not in self._limited:
            self._limited[power_w] = limited(self._load, power_w)
        return self._limited[power_w]
