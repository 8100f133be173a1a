# SPDX-License-Identifier: Apache-2.0
"""What each worker of a trial says of itself, in a file of its own. The trial's result is the first one's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from joulelab.errors import RecordError
from joulelab.records import store
from joulelab.records.layout import SCHEMA
from joulelab.records.trial import Repeat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from joulelab.records.layout import TrialFolder


class RankRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One worker: where it ran, how it ended, and its own view of each repeat.

    The energy in `repeats` is that of its machine while it worked, with all workers there: it is not added up
    over workers.
    """

    rank: int
    ranks: int
    local_rank: int
    host: str
    pid: int
    device: str
    state: str  # done | failed | interrupted
    reason: str = ""
    repeats: tuple[Repeat, ...] = ()
    clocks: tuple[
        dict[str, int], ...
    ] = ()  # at_ns, offset_ns, error_ns: to the first worker's, at start and end
    schema: int = SCHEMA


def write(folder: TrialFolder, record: RankRecord) -> None:
    store.make_folder(folder.ranks)
    store.write_json(folder.rank(record.rank), record)


def read(folder: TrialFolder) -> Iterator[RankRecord]:
    """In the order of their numbers; a file that is not whole is passed over."""
    if not folder.ranks.is_dir():
        return
    for path in sorted(folder.ranks.glob("[0-9]*[0-9].json")):
        try:
            yield store.read_json(path, RankRecord)
        except RecordError:
            continue


def blamed(folder: TrialFolder) -> str:
    """Which worker failed by itself, and why: the others ended because it was gone. Empty if none says so."""
    for record in read(folder):
        if record.state == "failed":
            return f"worker {record.rank} of {record.ranks} on {record.host}: {record.reason}"
    return ""


class Event(msgspec.Struct):
    """What a worker noted. The first line of its file, which says the schema, has no moments."""

    start_ns: int
    end_ns: int
    kind: str  # span | collective
    name: str
    epoch: int | None = None
    step: int | None = None
    number: int | None = None
    size_b: int | None = None


def events(folder: TrialFolder, rank: int) -> Iterator[Event]:
    """One worker's, in the order in which it wrote them; a line that a death tore is passed over."""
    path = folder.events_of(rank)
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        try:
            yield _EVENT.decode(line)
        except msgspec.DecodeError:
            continue


_EVENT = msgspec.json.Decoder(Event)
