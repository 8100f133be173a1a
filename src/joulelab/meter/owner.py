# SPDX-License-Identifier: Apache-2.0
"""The meters of this process.

The one registry at module level in this package: `measure()` has no object to hang its meter on, and a fork
must find all meters to make them connect anew. Nothing is registered with the interpreter before the first
meter is made.
"""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from joulelab.errors import InputError

if TYPE_CHECKING:
    from joulelab.meter.meter import Meter

# Numbers of windows are unique in a process, whichever meter they belong to. 0 means none.
NUMBERS = itertools.count(1)

_meters: dict[tuple[Path | str | None, tuple[str, ...]], Meter] = {}
_all: weakref.WeakSet[Meter] = weakref.WeakSet()
_hooked: list[str] = []
_lock = [threading.Lock()]  # a list, so that a fork can put a new one in


def meter_for(out: Path | str | None, devices: Sequence[str]) -> Meter:
    """The meter of this process for these settings; made on first use, closed at exit."""
    key = (out, devices if isinstance(devices, tuple) else names_of(devices))
    found = _meters.get(key)
    return found if found is not None else _make(key)


def names_of(devices: Sequence[str]) -> tuple[str, ...]:
    """A list of names as it is kept; one name that stands alone would be taken letter by letter."""
    if isinstance(devices, str):
        raise InputError(f"devices = {devices!r} is text", cure=f"give a list of names: [{devices!r}]")
    return tuple(devices)


def adopt(meter: Meter) -> None:
    """From here on a fork, and the end of the process, will find this meter."""
    with _lock[0]:
        _all.add(meter)
        if not _hooked:
            _hooked.append("once")
            atexit.register(close_all)
            os.register_at_fork(after_in_child=_after_fork)


def close_all() -> None:
    """Close all meters, also those that nobody closed: windows are resolved, samplers gone, records whole."""
    with _lock[0]:
        meters = list(dict.fromkeys([*_meters.values(), *_all]))
        _meters.clear()
    for meter in meters:
        meter.close()


def _make(key: tuple[Path | str | None, tuple[str, ...]]) -> Meter:
    from joulelab.meter.meter import Meter

    out, devices = key
    # A folder has many names ("x", Path("x"), "./x"): two meters in it would each write the whole record.
    same = (Path(out).resolve() if out is not None else None, devices)
    with _lock[0]:
        meter = _meters.setdefault(same, Meter(out=out, devices=devices))
        return _meters.setdefault(key, meter)


def _after_fork() -> None:
    _lock[0] = threading.Lock()  # another thread of the parent may have held it
    for meter in list(_all):
        meter.after_fork()
