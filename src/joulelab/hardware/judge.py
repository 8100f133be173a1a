# SPDX-License-Identifier: Apache-2.0
"""From what the sensors showed under the bursts to a verdict in words. Pure."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from joulelab.hardware.verdict import Verdict

if TYPE_CHECKING:
    from joulelab.hardware.device import Device
    from joulelab.hardware.response import Response
    from joulelab.hardware.watch import Log

# A sensor that sees all shows bursts in any phase of its period alike; one that looks at a quarter, never.
SPREAD = 0.15
# Drifting bursts, update by update: one interval in 26 holds none, which alone gives 0.2; blind: above 1.
SWING = 0.6
AGREE = 0.05
EXPLAINED = 0.5


@dataclass(frozen=True, kw_only=True)
class Row:
    """One train as each sensor shows it, in watts; None: it cannot say."""

    train: str
    seconds: float
    counter_w: float | None
    counter_swing: float | None  # of single updates, as a share of what the bursts add
    buffer_w: float | None
    fields_w: dict[str, float | None]


@dataclass(frozen=True, kw_only=True)
class Trains:
    """What all rows have in common."""

    rest_w: float
    period_s: float
    lag_s: float

    def row(self, name: str, log: Log, start_s: float, end_s: float) -> Row:
        """Means over the same span for every sensor: from edge to edge of the counter, where it has any."""
        start_ns, end_ns = round(start_s * 1e9), round(end_s * 1e9)
        edges_ns = [t for t, _ in log.edges if start_ns <= t <= end_ns]
        if len(edges_ns) > 2:
            start_ns, end_ns = edges_ns[0], edges_ns[-1]
        counter_w = log.counter_w(start_ns, end_ns)
        steps_w = log.steps_w(start_ns, end_ns, period_s=self.period_s)
        swing = None
        if counter_w is not None and len(steps_w) > 8 and counter_w > self.rest_w + 1.0:
            swing = statistics.pstdev(steps_w) / (counter_w - self.rest_w)
        return Row(
            train=name,
            seconds=(end_ns - start_ns) / 1e9,
            counter_w=counter_w,
            counter_swing=swing,
            buffer_w=log.buffer_w(start_ns, end_ns, lag_s=self.lag_s),
            fields_w={field: log.field_w(field, start_ns, end_ns) for field in log.fields},
        )


def judge(
    device: Device, *, rows: Sequence[Row], response: Response | None, period_s: float | None
) -> Verdict:
    """What may be believed, and how far."""
    traits = device.traits
    words: list[str] = []
    counter = True
    if traits.counter_period_s is not None:
        counter, said = _counter(rows, period_s=period_s)
        words.append(said)
    is_reference = counter and traits.counter_period_s is not None
    buffer = True
    if traits.buffer_period_s is not None:
        buffer, said = _buffer(rows, response=response, is_reference=is_reference)
        words.append(said)
    words += [_field(name, rows, is_reference=is_reference) for name in rows[0].fields_w]
    words.append("the gain, common to all of them, cannot be found out without another meter")
    known = response if response is not None and response.explained >= EXPLAINED else None
    return Verdict(
        uid=device.uid,
        name=device.name,
        driver=device.driver,
        wall_ns=time.time_ns(),
        counter_is_trusted=counter,
        buffer_is_trusted=buffer,
        counter_period_s=period_s,
        buffer_lag_s=known.lag_s if known else None,
        buffer_lag_error_s=known.lag_error_s if known else None,
        buffer_window_s=known.window_s if known else None,
        words=tuple(words),
    )


def _counter(rows: Sequence[Row], *, period_s: float | None) -> tuple[bool, str]:
    in_step_w = [r.counter_w for r in rows if r.train.startswith("in step") and r.counter_w is not None]
    swing = next((r.counter_swing for r in rows if r.train == "drifting"), None)
    moves = f"moves every {period_s * 1e3:.1f} ms; " if period_s else ""
    spread = None
    if len(in_step_w) > 1:
        rise_w = statistics.fmean(in_step_w) - min((r.counter_w or 0.0 for r in rows), default=0.0)
        middle_w = statistics.fmean(in_step_w)
        spread = (max(in_step_w) - min(in_step_w)) / max(middle_w, rise_w, 1.0)
    if spread is None and swing is None:
        return True, f"energy counter: {moves}it was not seen under bursts, so nothing speaks against it"
    said = []
    if spread is not None:
        said.append(f"bursts in {len(in_step_w)} phases of its period look alike within {spread:.1%}")
    if swing is not None:
        said.append(f"drifting bursts swing by {swing:.0%} from update to update")
    is_blind = (spread is not None and spread > SPREAD) or (swing is not None and swing > SWING)
    end = (
        "it sees a PART of each period only: not used"
        if is_blind
        else "it sees all of the time: trusted for the area"
    )
    return not is_blind, f"energy counter: {moves}{', '.join(said)}; {end}"


def _buffer(rows: Sequence[Row], *, response: Response | None, is_reference: bool) -> tuple[bool, str]:
    off = _off([(r.buffer_w, r.counter_w, r.train) for r in rows if not r.train.startswith("in step")])
    locked = _off([(r.buffer_w, r.counter_w, r.train) for r in rows if r.train.startswith("in step")])
    said = []
    if response is not None:
        said.append(
            f"late by {response.lag_s * 1e3:.0f} +- {response.lag_error_s * 1e3:.0f} ms, each sample over "
            f"{response.window_s * 1e3:.0f} ms "
            f"(that explains {response.explained:.0%} of {response.samples} samples)"
        )
    if not is_reference:
        return True, f"sample buffer: {'; '.join([*said, 'there is no counter to hold it against'])}"
    if locked is not None:
        said.append(f"at most {locked[0]:.1%} from the counter on bursts in step with it")
    if off is None:
        return True, f"sample buffer: {'; '.join([*said, 'it was not seen beside the counter'])}"
    said.append(f"at most {off[0]:.1%} on all others ({off[1]})")
    is_good = off[0] <= AGREE
    end = "trusted for the shape" if is_good else "NOT trusted: edges of the counter are used instead"
    return is_good, f"sample buffer: {'; '.join(said)}; {end}"


def _field(name: str, rows: Sequence[Row], *, is_reference: bool) -> str:
    values = [(r.fields_w.get(name), r.counter_w if is_reference else r.buffer_w, r.train) for r in rows]
    off = _off(values)
    if off is None:
        return f"{name}: it could not be held against anything"
    end = {
        "instant field": "never integrated here",
        "averaged field": "good for windows far longer than the second that it averages",
    }.get(name, "shown, not used")
    return f"{name}: up to {off[0]:.1%} off ({off[1]}); {end}"


def _off(pairs: Sequence[tuple[float | None, float | None, str]]) -> tuple[float, str] | None:
    """The largest share by which two sensors differ, and where."""
    known = [(abs(a / b - 1.0), train) for a, b, train in pairs if a is not None and b]
    return max(known) if known else None
