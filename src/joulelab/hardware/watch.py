# SPDX-License-Identifier: Apache-2.0
"""All sensors of one device, written down while something runs."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from joulelab.errors import SensorError

if TYPE_CHECKING:
    from joulelab.hardware.device import Device, Sample

PAUSE_S = 0.0015
BUFFER_EVERY_NS = 500_000_000
STEPS_NS = 20_000_000  # a field that stands still is written down this often


@dataclass
class Log:
    """What was read. Edges: reads at which the counter had moved, (monotonic ns, joules that only grow)."""

    edges: list[tuple[int, float]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    fields: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)  # by sensor: its first refusal
    reads: int = 0
    came_s: list[tuple[float, float]] = field(default_factory=list)  # the bursts as they came to be

    def counter_w(self, start_ns: int, end_ns: int) -> float | None:
        """Mean power by the counter, from its first edge in the span to its last."""
        inside = [e for e in self.edges if start_ns <= e[0] <= end_ns]
        if len(inside) < 3:
            return None
        (a_ns, a_j), (b_ns, b_j) = inside[0], inside[-1]
        return (b_j - a_j) / (b_ns - a_ns) * 1e9

    def steps_w(self, start_ns: int, end_ns: int, *, period_s: float) -> list[float]:
        """Mean power by the counter, update by update; updates that were missed are left out."""
        inside = [e for e in self.edges if start_ns <= e[0] <= end_ns]
        return [
            (b_j - a_j) / (b_ns - a_ns) * 1e9
            for (a_ns, a_j), (b_ns, b_j) in pairwise(inside)
            if 0.5 < (b_ns - a_ns) / 1e9 / period_s < 1.5
        ]

    def buffer_w(self, start_ns: int, end_ns: int, *, lag_s: float) -> float | None:
        """Mean power by the broken line through the buffer's samples."""
        moved_ns = round(lag_s * 1e9)
        return _mean(
            [(s.time_ns - moved_ns, s.power_w) for s in self.samples], start_ns, end_ns, is_line=True
        )

    def field_w(self, name: str, start_ns: int, end_ns: int) -> float | None:
        """Mean of a field, each value held until the next."""
        return _mean(self.fields.get(name, []), start_ns, end_ns, is_line=False)


def period_of(logs_ns: Sequence[Sequence[int]]) -> float | None:
    """Seconds between two moves, by a straight line through the moves of one or more logs of one counter.

    Moves that were missed do no harm: moves are numbered by the time that passed, first within each log, then
    over the pauses between them, for which a better period is needed.
    """
    steps_ns = sorted(b - a for log in logs_ns for a, b in pairwise(log))
    if len(steps_ns) < 3:
        return None
    usual_ns = steps_ns[len(steps_ns) // 2]
    longest = max(logs_ns, key=len)
    first_ns = _slope(longest, _counted(longest, usual_ns))
    if first_ns is None:
        return None
    every = [t for log in logs_ns for t in log]
    slope_ns = _slope(every, [round((t - every[0]) / first_ns) for t in every])
    return None if slope_ns is None else slope_ns / 1e9


def _counted(edges_ns: Sequence[int], usual_ns: float) -> list[int]:
    turns = [0]
    for a, b in pairwise(edges_ns):
        turns.append(turns[-1] + round((b - a) / usual_ns))
    return turns


def _slope(edges_ns: Sequence[int], turns: Sequence[int]) -> float | None:
    n = len(turns)
    mean_k, mean_t = sum(turns) / n, sum(t - edges_ns[0] for t in edges_ns) / n
    kk = sum((k - mean_k) ** 2 for k in turns)
    kt = sum((k - mean_k) * (t - edges_ns[0] - mean_t) for k, t in zip(turns, edges_ns, strict=True))
    return kt / kk if kk else None


def watch(
    device: Device,
    log: Log,
    *,
    until_ns: int,
    clock: Callable[[], int] = time.monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Read until then. A sensor that refuses is left alone from there on; the others go on."""
    fields: Mapping[str, Callable[[], float]] = device.fields()
    range_j = device.traits.counter_range_j
    has_counter = device.traits.counter_period_s is not None
    has_buffer = device.traits.buffer_period_s is not None
    last_j: float | None = None
    buffer_ns = 0
    while (now_ns := clock()) < until_ns:
        if has_counter and "counter" not in log.troubles:
            try:
                reading = device.energy()
                log.reads += 1
                if last_j is None or reading.energy_j != last_j:
                    gained_j = 0.0 if last_j is None else reading.energy_j - last_j
                    gained_j = gained_j % range_j if range_j else gained_j
                    before_j = log.edges[-1][1] if log.edges else 0.0
                    if last_j is not None:  # the first value was reached anywhere in its period
                        log.edges.append((reading.time_ns, before_j + gained_j))
                    last_j = reading.energy_j
            except SensorError as error:
                log.troubles["counter"] = error.message
        for name, read in fields.items():
            if name not in log.troubles:
                _note(log, name, read, clock)
        if has_buffer and "buffer" not in log.troubles and now_ns >= buffer_ns:
            buffer_ns = now_ns + BUFFER_EVERY_NS
            _fill(log, device, now_ns)
        sleep(PAUSE_S)
    if has_buffer and "buffer" not in log.troubles:
        _fill(log, device, clock())


def _note(log: Log, name: str, read: Callable[[], float], clock: Callable[[], int]) -> None:
    try:
        power_w = read()
    except SensorError as error:
        log.troubles[name] = error.message
        return
    values = log.fields.setdefault(name, [])
    now_ns = clock()
    if not values or values[-1][1] != power_w or now_ns - values[-1][0] > STEPS_NS:
        values.append((now_ns, power_w))


def _fill(log: Log, device: Device, now_ns: int) -> None:
    after_ns = log.samples[-1].time_ns if log.samples else now_ns - BUFFER_EVERY_NS
    try:
        log.samples += device.samples(after_ns)
    except SensorError as error:
        log.troubles["buffer"] = error.message


def _mean(values: list[tuple[int, float]], start_ns: int, end_ns: int, *, is_line: bool) -> float | None:
    """Mean of a broken line, or of steps, over a span; None where the values do not reach over it."""
    times = [t for t, _ in values]
    if len(values) < 3 or times[0] > start_ns or times[-1] < end_ns - 50_000_000 or end_ns <= start_ns:
        return None
    total = 0.0
    first = max(0, bisect_right(times, start_ns) - 1)
    for (a_ns, a_w), (b_ns, b_w) in pairwise(values[first:]):
        if a_ns >= end_ns:
            break
        from_ns, to_ns = max(a_ns, start_ns), min(b_ns, end_ns)
        if to_ns <= from_ns or b_ns == a_ns:
            continue
        if is_line:
            rise = (b_w - a_w) / (b_ns - a_ns)
            total += (a_w + rise * ((from_ns + to_ns) / 2 - a_ns)) * (to_ns - from_ns)
        else:
            total += a_w * (to_ns - from_ns)
    covered_ns = min(times[-1], end_ns) - start_ns
    return total / covered_ns
