# SPDX-License-Identifier: Apache-2.0
"""What the sampler leaves behind: windows.jsonl and power.csv."""

from __future__ import annotations

import json
import socket
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from joulelab.meter.writer import Appender
from joulelab.records.layout import SCHEMA, TrialFolder

if TYPE_CHECKING:
    from joulelab.meter.book import Figures
    from joulelab.meter.channel import Channel

LINE_NS = 100_000_000
# Without a folder, figures that nobody has asked for yet wait on the disk for temporary files: so many bytes,
# half a million windows. Then they are given up.
SPOOL = 256 << 20


def describe(channels: Sequence[Channel]) -> list[dict[str, object]]:
    """The device list, as it stands in records and as a Meter tells it."""
    return [
        {
            "uid": channel.device.uid,
            "name": channel.device.name,
            "kind": channel.device.kind,
            "source": channel.source,
            "scope": channel.device.scope,
            "simulated": channel.device.simulated,
            "part_of": channel.device.part_of,
            "gain_error": channel.device.traits.gain_error,
        }
        for channel in channels
    ]


class Record:
    """Windows as they are finished, and power ten times a second."""

    def __init__(self, out: Path | None, *, spool: Path, channels: Sequence[Channel]) -> None:
        folder = TrialFolder(out) if out is not None else None
        self._windows = Appender(folder.windows if folder is not None else spool)
        self._spooled = folder is None
        self._power = Appender(folder.power) if folder is not None else None
        self._channels = channels
        self._places: dict[int, array[int]] = {}  # by process: where each window's line begins, by number
        self._shown: list[tuple[int, float] | None] = [None] * len(channels)
        # One pair of clocks places the record in the world.
        pair = {"monotonic_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}
        head = {"schema": SCHEMA, "kind": "windows", "host": socket.gethostname(), **pair}
        if self._windows.empty:
            self._windows.append(json.dumps({**head, "devices": describe(channels)}))
        if self._power is not None and self._power.empty:
            self._power.append(f"# joulelab power schema={SCHEMA}")
            self._power.append("time_ns,device,power_w")

    @property
    def fault(self) -> str:
        return self._windows.fault or (self._power.fault if self._power is not None else "")

    def window(self, labels: Figures, figures: Figures, *, process: int, number: int) -> None:
        """One finished window."""
        if self._spooled and self._windows.size > SPOOL:
            self._windows.restart()
            self._places.clear()
        places = self._places.setdefault(process, array("q"))
        if number >= len(places):
            places.extend([-1] * (number + 1 - len(places)))
        places[number] = self._windows.append(json.dumps({**labels, **figures}))

    def find(self, *, process: int, number: int) -> Figures | None:
        """A window that was finished earlier."""
        places = self._places.get(process, ())
        if number >= len(places) or places[number] < 0:
            return None
        try:
            found = json.loads(self._windows.line(places[number]))
        except ValueError:
            return None
        return found if isinstance(found, dict) and found.get("id") == f"{process}-{number}" else None

    def power(self) -> None:
        """Lines for what the curves have come to know since the last call."""
        if self._power is None:
            return
        for index, channel in enumerate(self._channels):
            if not channel.lost:
                self._shown[index] = self._power_of(channel, self._shown[index], self._power)

    def _power_of(
        self, channel: Channel, shown: tuple[int, float] | None, file: Appender
    ) -> tuple[int, float] | None:
        curve = channel.curve
        if curve.first_ns is None:
            return shown
        if shown is None:
            return curve.first_ns, curve.mark(curve.first_ns).energy_j
        time_ns, energy_j = shown
        covered_ns = curve.covered_ns
        if covered_ns - time_ns > 100 * LINE_NS:
            time_ns = covered_ns - LINE_NS  # a long gap is one line, not a thousand
        while covered_ns - time_ns >= LINE_NS:
            time_ns += LINE_NS
            now_j = curve.mark(time_ns).energy_j
            power_w = (now_j - energy_j) / (time_ns - shown[0]) * 1e9
            file.append(f"{time_ns},{channel.device.uid},{power_w:.3f}")
            shown, energy_j = (time_ns, now_j), now_j
        return shown

    def restart_power(self) -> None:
        """A curve was exchanged: its joules are not those of the old one."""
        self._shown = [None] * len(self._channels)

    def flush(self) -> None:
        self._windows.flush()
        if self._power is not None:
            self._power.flush()

    def close(self) -> None:
        self._windows.close()
        if self._power is not None:
            self._power.close()
