# SPDX-License-Identifier: Apache-2.0
"""A timeline that Horovod wrote, as rows: what all ranks did together, how long they waited and moved data.

Horovod's first rank writes it while it trains: a list of Chrome's trace events in which each tensor is a
process of its own. NEGOTIATE_X lasts from the first rank that is ready to the last, X from then to the
result; what X is made of lies inside it. A run that is killed never writes the bracket at the end of the
list. Which rank was ready when is said only the first time that a tensor is seen: later ones are in a cache.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

NEGOTIATE = "NEGOTIATE_"

Interval = tuple[int, int]  # microseconds


@dataclass(frozen=True, kw_only=True)
class Collective:
    """One tensor, once. `start_ns` counts from the start of the timeline."""

    name: str
    operation: str
    start_ns: int
    waiting_s: float | None  # unknown where the timeline was switched on in the middle of it
    moving_s: float
    last_rank: int | None
    size_b: int | None


@dataclass(frozen=True, kw_only=True)
class Part:
    """One of the things that moving is made of: how often, and seconds on the wall."""

    n: int
    moving_s: float


@dataclass(frozen=True, kw_only=True)
class Total:
    """All collectives of one operation. Intervals that overlap are merged: these are seconds on the wall."""

    operation: str
    n: int
    waiting_s: float
    moving_s: float
    parts: dict[str, Part]


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """`unfinished`: collectives that had begun when the record ends; they are not among the rows."""

    began_ns: int | None  # since 1970
    ranks: int | None
    rows: tuple[Collective, ...]
    totals: tuple[Total, ...]  # of each operation, and of all
    unfinished: int
    torn: bool  # its last line is missing


def read(path: Path) -> Timeline:
    """The timeline in a file that HOROVOD_TIMELINE named."""
    cure = "give the file that HOROVOD_TIMELINE named; it begins with '[' and has NEGOTIATE_ events"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", cure=cure) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no Horovod timeline: it is not text", cure=cure) from error
    if not text.lstrip().startswith("["):
        raise InputError(f"{path} is no Horovod timeline: it is no list of events", cure=cure)
    lanes = _Lanes()
    torn = lanes.hear(text)
    if not lanes.negotiated:
        raise InputError(f"{path} is no Horovod timeline: it has no {NEGOTIATE} event", cure=cure)
    return lanes.timeline(torn=torn)


# ---- the text --------------------------------------------------------------------------------------------


def _events(text: str) -> Iterator[Any]:
    """One after the other, as far as they are whole. None at the end if the list has no end."""
    decode, between = json.JSONDecoder().raw_decode, re.compile(r"[\s,]*")
    place = text.index("[") + 1
    while True:
        found = between.match(text, place)
        assert found is not None
        place = found.end()
        if text.startswith("]", place):
            return
        try:
            event, place = decode(text, place)
        except (ValueError, RecursionError):  # also what nests, or counts, without end
            yield None
            return
        yield event


# ---- tensors, each in a lane of its own ------------------------------------------------------------------


@dataclass
class _Lane:
    """What is going on with one tensor."""

    name: str = ""
    open: list[tuple[str, int]] = field(default_factory=list)  # what has begun, outermost first, and when
    waited: Interval | None = None
    ready: list[int] = field(default_factory=list)  # ranks, as they became so
    parts: list[tuple[str, Interval]] = field(default_factory=list)


@dataclass
class _Found:
    lane: str
    operation: str
    waited: Interval | None
    moved: Interval
    ready: list[int]
    size_b: int | None
    parts: list[tuple[str, Interval]]


class _Lanes:
    def __init__(self) -> None:
        self.negotiated = False
        self._began_us: int | None = None
        self._lanes: dict[int, _Lane] = defaultdict(_Lane)
        self._found: list[_Found] = []

    def hear(self, text: str) -> bool:
        """All events of `text`. True if its end is missing."""
        for event in _events(text):
            if event is None:
                return True
            if isinstance(event, dict) and isinstance(event.get("pid"), int):
                self._hear(event)  # those without a tensor mark cycles of Horovod's own
        return False

    def _hear(self, event: dict[str, Any]) -> None:
        kind, name, args = event.get("ph"), str(event.get("name", "")), event.get("args")
        lane = self._lanes[event["pid"]]
        if kind == "M":
            if name == "process_name" and isinstance(args, dict):
                lane.name = str(args.get("name", lane.name))
                began_us = args.get("start_time_since_epoch_in_micros")
                self._began_us = began_us if isinstance(began_us, int) else self._began_us
            return
        time_us = event.get("ts")
        if not isinstance(time_us, int):
            return
        if kind == "B":
            self._begin(lane, name, time_us)
        elif kind == "E" and lane.open:
            self._end(lane, time_us, args if isinstance(args, dict) else {})
        elif kind in ("X", "i") and name.isdecimal() and _negotiates(lane):
            lane.ready.append(int(name))

    def _begin(self, lane: _Lane, name: str, time_us: int) -> None:
        if not lane.open and name.startswith(NEGOTIATE):
            self.negotiated = True
            lane.waited, lane.ready = None, []
        lane.open.append((name, time_us))

    def _end(self, lane: _Lane, time_us: int, args: dict[str, Any]) -> None:
        name, began_us = lane.open.pop()
        if lane.open:
            lane.parts.append((name, (began_us, time_us)))
        elif name.startswith(NEGOTIATE):
            lane.waited, lane.parts = (began_us, time_us), []
        else:
            made = _Found(
                lane=lane.name,
                operation=name,
                waited=lane.waited,
                moved=(began_us, time_us),
                ready=lane.ready,
                size_b=size_b(args),
                parts=lane.parts,
            )
            self._found.append(made)
            lane.waited, lane.ready, lane.parts = None, [], []

    def timeline(self, *, torn: bool) -> Timeline:
        ranks = max((rank + 1 for found in self._found for rank in found.ready), default=None)
        found = sorted(self._found, key=_start_us)
        operations = list(dict.fromkeys(each.operation for each in found))
        totals = [_total(name, [each for each in found if each.operation == name]) for name in operations]
        return Timeline(
            began_ns=None if self._began_us is None else self._began_us * 1000,
            ranks=ranks,
            rows=tuple(_row(each, ranks=ranks) for each in found),
            totals=(*totals, _total("all", found)),
            unfinished=sum(bool(lane.open or lane.waited) for lane in self._lanes.values()),
            torn=torn,
        )


def _negotiates(lane: _Lane) -> bool:
    return len(lane.open) == 1 and lane.open[0][0].startswith(NEGOTIATE)


def _start_us(found: _Found) -> int:
    return (found.waited or found.moved)[0]


def _row(found: _Found, *, ranks: int | None) -> Collective:
    # Where only some ranks are named, the others were ready by the cache, and nobody knows when.
    all_said = bool(found.ready) and len(set(found.ready)) == ranks
    return Collective(
        name=found.lane,
        operation=found.operation,
        start_ns=_start_us(found) * 1000,
        waiting_s=None if found.waited is None else merged_s([found.waited]),
        moving_s=merged_s([found.moved]),
        last_rank=found.ready[-1] if all_said else None,
        size_b=found.size_b,
    )


def _total(operation: str, found: list[_Found]) -> Total:
    parts: dict[str, list[Interval]] = defaultdict(list)
    for each in found:
        for name, interval in each.parts:
            parts[name].append(interval)
    return Total(
        operation=operation,
        n=len(found),
        waiting_s=merged_s(each.waited for each in found if each.waited is not None),
        moving_s=merged_s(each.moved for each in found),
        parts={name: Part(n=len(each), moving_s=merged_s(each)) for name, each in parts.items()},
    )


def merged_s(intervals: Iterable[Interval]) -> float:
    """Seconds that lie in at least one of them: tensors wait side by side."""
    sum_us, until_us = 0, -1
    for start_us, end_us in sorted(intervals):
        sum_us += max(0, end_us - max(start_us, until_us))
        until_us = max(until_us, end_us)
    return sum_us / 1e6


def size_b(args: dict[str, Any]) -> int | None:
    """Bytes of a tensor, where its end says of what kind and shape it is."""
    kind, shape = str(args.get("dtype", "")), str(args.get("shape", ""))
    bits = re.fullmatch(r"(?:u?int|b?float)(\d+)", kind)
    if not re.fullmatch(r"\[[\d, ]*\]", shape) or not (bits or kind == "bool"):
        return None
    return math.prod(int(each) for each in re.findall(r"\d+", shape)) * (int(bits[1]) // 8 if bits else 1)
