# SPDX-License-Identifier: Apache-2.0
"""The cost of a repeat on all machines together: each is metered once, by the first of its workers."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import msgspec

from joulelab.records.measurement import Measurement
from joulelab.train.job import add_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from joulelab.records.trial import Repeat
    from joulelab.train.ranks import Ranks


class Said(msgspec.Struct, frozen=True):
    host: str
    total: Measurement
    phases: dict[str, Measurement]


def together(repeat: Repeat, ranks: Ranks) -> Repeat:
    """The repeat with the energy of every machine; on one machine it is as it was."""
    if ranks.count == 1:
        return repeat
    own = Said(socket.gethostname(), repeat.total, repeat.phases) if ranks.local_rank == 0 else None
    heard = ranks.texts(msgspec.json.encode(own).decode())
    said = [msgspec.json.decode(text, type=Said | None) for text in heard]
    leaders = [each for each in said if each is not None]
    if len(leaders) == 1:
        return repeat
    hosts = [each.host for each in leaders]
    return msgspec.structs.replace(
        repeat,
        total=over_machines([each.total for each in leaders], hosts),
        phases={
            name: over_machines([each.phases[name] for each in leaders], hosts)
            for name in repeat.phases
            if all(name in each.phases for each in leaders)
        },
    )


def over_machines(parts: Sequence[Measurement], hosts: Sequence[str]) -> Measurement:
    """Joules and their bounds added up, the time of the longest; no sum where sources differ."""
    named = [
        msgspec.structs.replace(
            part,
            energy_j_by_device={f"{host}/{uid}": joules for uid, joules in part.energy_j_by_device.items()},
            flags=tuple(f"{host}: {flag}" for flag in part.flags),
        )
        for host, part in zip(hosts, parts, strict=True)
    ]
    total = add_up(named)
    time_s = max(part.time_s for part in parts)
    power_w = total.energy_j / time_s if total.energy_j is not None and time_s > 0 else None
    return msgspec.structs.replace(total, time_s=time_s, power_w=power_w)
