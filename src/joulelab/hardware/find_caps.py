# SPDX-License-Identifier: Apache-2.0
"""Which caps there are for a trial, and one of them again from another process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from joulelab.errors import JouleLabError, SensorError
from joulelab.hardware import AUTOMATIC_CAPS, CAPS
from joulelab.hardware.cap import Cap, FoundCaps
from joulelab.hardware.device import Problem
from joulelab.hardware.find import ENVIRONMENT
from joulelab.records import plugin

if TYPE_CHECKING:
    from collections.abc import Sequence

# Their figures are no measurement of this machine, so this machine is not capped for them.
SIMULATED = ("fake", "replay")


def find_caps(kind: str, names: Sequence[str] = ()) -> FoundCaps:
    """Caps of this kind of device ("" for all): of those that a trial names, else what the machine has.

    A trial whose devices are simulated gets their simulated caps or none; a real cap is never simulated.
    """
    listed = os.environ.get(ENVIRONMENT, "").split(",")
    named = tuple(names) or tuple(name.strip() for name in listed if name.strip())
    pairs = [(name.partition(":")[0], name.partition(":")[2]) for name in named]
    asked = [(vendor, argument) for vendor, argument in pairs if vendor in CAPS and _caps(vendor, kind)]
    found = FoundCaps()
    simulated = [name for name in named if name.partition(":")[0] in SIMULATED]
    if not asked and simulated:
        what = f"{simulated[0]} has none of this kind, and no real device is capped for a simulated one"
        found = FoundCaps(problems=(Problem(vendor="find", what=what, cure="name a real device"),))
    elif not asked:
        asked = [(vendor, "") for vendor in AUTOMATIC_CAPS if _caps(vendor, kind)]
    for vendor, argument in asked:
        found += _look(vendor, argument)
    strangers = [cap for cap in found.caps if kind and cap.kind != kind]
    for cap in strangers:
        cap.close()
    kept = {cap.uid: cap for cap in found.caps if cap not in strangers}
    return FoundCaps(tuple(kept.values()), found.problems)


def reopen(vendor: str, argument: str, uid: str) -> Cap:
    """The cap that a lease names; the caller closes it."""
    found: FoundCaps = _class(vendor).find(argument)
    wanted = [cap for cap in found.caps if cap.uid == uid]
    for cap in found.caps:
        if cap not in wanted:
            cap.close()
    if not wanted:
        raise SensorError(
            f"{uid} is not found any more: " + "; ".join(p.what for p in found.problems),
            cure="; ".join(p.cure for p in found.problems if p.cure),
        )
    return wanted[0]


def _class(vendor: str) -> Any:
    # A lease is a file: what it names is looked up in the table, and nothing else is loaded for it.
    if vendor not in CAPS:
        raise SensorError(f"no vendor '{vendor}' has caps", cure=f"legal: {', '.join(CAPS)}")
    return plugin.load(CAPS, vendor, what="device")


def _caps(vendor: str, kind: str) -> bool:
    return not kind or kind in _class(vendor).kinds


def _look(vendor: str, argument: str) -> FoundCaps:
    try:
        found: FoundCaps = _class(vendor).find(argument)
    except JouleLabError:
        raise
    except Exception as error:  # noqa: BLE001 - a broken vendor library must not end the search
        words = f"{type(error).__name__}: {error}"
        return FoundCaps(problems=(Problem(vendor=vendor, what=words, cure="run `joulelab doctor`"),))
    return found
