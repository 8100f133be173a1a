# SPDX-License-Identifier: Apache-2.0
"""Which sensors of a GPU can be trusted, found out on the card itself in less than a minute.

There is no external meter: a sensor is held against itself under the same bursts at other instants of its
period, and against the others. What is common to all of them, the gain, stays unknown.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from joulelab.errors import JouleLabError, SensorError
from joulelab.hardware import verdict as verdicts
from joulelab.hardware.burner import Burner
from joulelab.hardware.cost import Cost, cost_of
from joulelab.hardware.device import Device, Problem
from joulelab.hardware.find import find
from joulelab.hardware.judge import Row, Trains, judge
from joulelab.hardware.loads import noise
from joulelab.hardware.response import Response, fit
from joulelab.hardware.watch import Log, period_of, watch

if TYPE_CHECKING:
    from joulelab.hardware.verdict import Verdict

BURST = 0.23  # of a period: what a sensor that looks at a quarter of it sees wholly or not at all
PHASES = 4
LOAD = (sys.executable, "-m", "joulelab.hardware.bursts")


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Seconds of each part. The averaged field of a second settles within `settle_s`."""

    quiet_s: float = 2.0
    warm_s: float = 2.0
    rest_s: float = 1.5
    phase_s: float = 2.5
    drift_s: float = 8.0
    irregular_s: float = 8.0
    long_s: float = 4.8
    settle_s: float = 1.1
    tail_s: float = 0.3  # samples of the last instants come late
    start_s: float = 90.0  # given to the load until it burns


@dataclass(kw_only=True)
class CardReport:
    """What was seen on one card, also where a step failed."""

    uid: str
    name: str
    load: str = ""
    seconds: float = 0.0
    costs: dict[str, Cost] = field(default_factory=dict)
    periods_s: dict[str, float] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    response: Response | None = None
    troubles: list[str] = field(default_factory=list)
    verdict: Verdict | None = None
    kept: str = ""  # path


@dataclass(frozen=True, kw_only=True)
class Calibration:
    cards: tuple[CardReport, ...]
    problems: tuple[Problem, ...]


def calibrate(
    *,
    names: Sequence[str] = (),
    lengths: Lengths | None = None,
    load: Sequence[str] = LOAD,
    keep: bool = True,
) -> Calibration:
    """Every GPU that has a counter or a buffer, one after the other."""
    found = find(names, calibrated=False)
    problems = list(found.problems)
    cards = []
    for device in found.devices:
        try:
            traits = device.traits
            if device.kind == "gpu" and (traits.counter_period_s or traits.buffer_period_s):
                cards.append(_card(device, lengths=lengths or Lengths(), load=load, keep=keep))
        finally:
            device.close()
    if not cards:
        problems.append(
            Problem(vendor="calibrate", what="no GPU with a counter or a sample buffer", cure="see above")
        )
    return Calibration(cards=tuple(cards), problems=tuple(problems))


def _card(device: Device, *, lengths: Lengths, load: Sequence[str], keep: bool) -> CardReport:
    card = CardReport(uid=device.uid, name=device.name)
    start_s = time.monotonic()
    burner: Burner | None = None
    try:
        _costs(device, card)
        burner = Burner(load, environment=device.environment())
        quiet = Log()
        watch(device, quiet, until_ns=_in(lengths.quiet_s))
        _periods(device, quiet, card)
        card.load = burner.wait(lengths.start_s)
        _experiments(device, burner, card, lengths, edges_ns=[t for t, _ in quiet.edges])
    except (JouleLabError, OSError) as error:
        _trouble(card, error)
    finally:
        if burner is not None:
            burner.close()
    if card.rows:
        try:
            card.verdict = judge(
                device, rows=card.rows, response=card.response, period_s=card.periods_s.get("counter")
            )
            card.kept = str(verdicts.keep(card.verdict)) if keep else ""
        except JouleLabError as error:
            _trouble(card, error)
    card.seconds = time.monotonic() - start_s
    return card


def _experiments(
    device: Device, burner: Burner, card: CardReport, lengths: Lengths, *, edges_ns: list[int]
) -> None:
    at_s = time.monotonic() + 0.2
    _train(
        device, burner, card, "warm-up", spans_s=_regular(at_s, 0.1, lengths.warm_s, on_s=0.08), tail_s=0.0
    )
    rest = Log()
    watch(device, rest, until_ns=_in(lengths.rest_s))
    _take(card, rest)
    # The longer the span, the more exact.
    if found_s := period_of([edges_ns, [t for t, _ in rest.edges]]):
        card.periods_s["counter"] = found_s
    period_s = card.periods_s.get("counter") or device.traits.counter_period_s or 0.1
    end_ns = time.monotonic_ns()
    rest_ns = end_ns - round(0.6 * lengths.rest_s * 1e9)
    rest_w = rest.counter_w(rest_ns, end_ns) or rest.buffer_w(rest_ns, end_ns, lag_s=0.0)
    trains = Trains(rest_w=rest_w or 0.0, period_s=period_s, lag_s=device.traits.buffer_lag_s)
    # In step with the sensor: the same burst at four instants of its period.
    edge_s = rest.edges[-1][0] / 1e9 if rest.edges else time.monotonic()
    for phase in range(PHASES):
        turns = (time.monotonic() + 0.1 - edge_s) // period_s + 1
        at_s = edge_s + (turns + phase / PHASES) * period_s
        spans_s = _regular(at_s, period_s, lengths.phase_s, on_s=BURST * period_s)
        name = f"in step, phase {phase}/{PHASES}"
        log = _train(device, burner, card, name, spans_s=spans_s, tail_s=lengths.tail_s)
        if log is not None:
            card.rows.append(trains.row(name, log, at_s + lengths.settle_s, spans_s[-1][0] + period_s))
    # Drifting through its period, irregular, and long against it.
    for name in ("drifting", "irregular", "long"):
        at_s = time.monotonic() + 0.1
        if name == "drifting":
            spans_s = _regular(at_s, 1.04 * period_s, lengths.drift_s, on_s=BURST * period_s)
        elif name == "irregular":
            spans_s = _irregular(at_s, lengths.irregular_s)
        else:
            spans_s = _regular(at_s, 0.6, lengths.long_s, on_s=0.3)
        log = _train(device, burner, card, name, spans_s=spans_s, tail_s=lengths.tail_s)
        if log is None:
            continue
        came_s = log.came_s
        if name == "irregular" and device.traits.buffer_period_s:
            card.response = fit(log.samples, came_s)
            if card.response is not None:
                trains = Trains(rest_w=trains.rest_w, period_s=period_s, lag_s=card.response.lag_s)
        card.rows.append(trains.row(name, log, spans_s[0][0] + lengths.settle_s, spans_s[-1][1]))


def _train(
    device: Device,
    burner: Burner,
    card: CardReport,
    name: str,
    *,
    spans_s: list[tuple[float, float]],
    tail_s: float,
) -> Log | None:
    """One train of bursts under watch; None where nothing can be said of it."""
    log = Log()
    burner.send(spans_s)
    end_s = spans_s[-1][1] + tail_s
    watch(device, log, until_ns=round(end_s * 1e9))
    _take(card, log)
    try:
        log.came_s = burner.spans(10.0)
    except SensorError as error:
        card.troubles.append(f"{name}: {error.message}")
        if burner.ended:
            raise
        return None
    late_s = statistics.median(c[0] - s[0] for c, s in zip(log.came_s, spans_s, strict=True))
    longer_s = statistics.median(c[1] - s[1] for c, s in zip(log.came_s, spans_s, strict=True))
    if tail_s and max(late_s, longer_s) > 0.01:
        card.troubles.append(
            f"{name}: bursts came {late_s * 1e3:.0f} ms late, ended {longer_s * 1e3:.0f} ms late"
        )
    return log


def _costs(device: Device, card: CardReport) -> None:
    reads = dict(device.fields())
    if device.traits.counter_period_s:
        reads["counter"] = device.energy_j
    for name, read in reads.items():
        try:
            card.costs[name] = cost_of(read)
        except SensorError as error:
            card.troubles.append(f"{name}: {error.message}")
    if device.traits.buffer_period_s:
        card.costs["buffer"] = cost_of(lambda: device.samples(0))


def _periods(device: Device, log: Log, card: CardReport) -> None:
    _take(card, log)
    found = {"counter": period_of([[t for t, _ in log.edges]])}
    stamps_s = [s.time_ns / 1e9 for s in log.samples]
    if len(stamps_s) > 3:
        found["buffer"] = statistics.median(b - a for a, b in itertools.pairwise(stamps_s))
    for name, values in log.fields.items():
        moves_s = [b[0] / 1e9 for a, b in itertools.pairwise(values) if a[1] != b[1]]
        if len(moves_s) > 3:
            found[name] = statistics.median(b - a for a, b in itertools.pairwise(moves_s))
    card.periods_s.update({name: period_s for name, period_s in found.items() if period_s})
    if device.traits.counter_period_s and not log.edges:
        card.troubles.append("the counter did not move while the card was at rest")


def _regular(at_s: float, period_s: float, length_s: float, *, on_s: float) -> list[tuple[float, float]]:
    return [
        (at_s + k * period_s, at_s + k * period_s + on_s) for k in range(max(3, int(length_s / period_s)))
    ]


def _irregular(at_s: float, length_s: float) -> list[tuple[float, float]]:
    """Lengths that beat with nothing; the same ones every time."""
    spans_s = []
    t_s, k = at_s, 0
    while t_s < at_s + length_s:
        on_s, off_s = 0.02 + 0.08 * noise(1, k), 0.04 + 0.14 * noise(2, k)
        spans_s.append((t_s, t_s + on_s))
        t_s, k = t_s + on_s + off_s, k + 1
    return spans_s


def _take(card: CardReport, log: Log) -> None:
    for sensor, words in log.troubles.items():
        if (said := f"{sensor}: {words}") not in card.troubles:
            card.troubles.append(said)


def _trouble(card: CardReport, error: Exception) -> None:
    words = error.message if isinstance(error, JouleLabError) else str(error)
    cure = getattr(error, "cure", "")
    said = words + (f" (cure: {cure})" if cure else "")
    if not any(words in t for t in card.troubles):
        card.troubles.append(said)


def _in(seconds: float) -> int:
    return time.monotonic_ns() + round(seconds * 1e9)
