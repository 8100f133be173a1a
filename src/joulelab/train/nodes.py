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


def of_all_machines(total: Measurement, ranks: Ranks) -> Measurement:
    """What the trial cost on every machine."""
    heard = _heard(Said(socket.gethostname(), total, {}), ranks)
    return (
        over_machines([each.total for each in heard], [each.host for each in heard]) if heard[1:] else total
    )


def _heard(own: Said, ranks: Ranks) -> list[Said]:
    """What the first worker of each machine says."""
    text = msgspec.json.encode(own if ranks.local_rank == 0 else None).decode()
    said = [msgspec.json.decode(line, type=Said | None) for line in ranks.texts(text)]
    return [each for each in said if each is not None]


def together(repeat: Repeat, ranks: Ranks) -> Repeat:
    """The repeat with the energy of every machine; on one machine it is as it was."""
    leaders = _heard(Said(socket.gethostname(), repeat.total, repeat.phases), ranks)
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
