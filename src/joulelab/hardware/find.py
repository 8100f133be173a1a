# SPDX-License-Identifier: Apache-2.0
"""Which devices this machine has. Looking never fails; naming a device that is not there does."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from typing import Any

from joulelab.errors import JouleLabError, SensorError, unknown
from joulelab.hardware import AUTOMATIC, DEVICES, verdict
from joulelab.hardware.device import Device, Found, Problem
from joulelab.records import plugin

ENVIRONMENT = "JOULELAB_DEVICES"


def devices(names: Sequence[str] = ()) -> tuple[Device, ...]:
    """The devices alone: what `names` say, or whatever the machine has."""
    return find(names).devices


def find(names: Sequence[str] = (), *, calibrated: bool = True) -> Found:
    """Devices and problems. A name is "vendor", "vendor:argument" or "package.module:Class[:argument]".

    Without names the environment variable JOULELAB_DEVICES (comma separated) decides; without that, what the
    machine has.
    """
    if isinstance(names, str):
        names = (names,)
    named = tuple(names) or tuple(n.strip() for n in os.environ.get(ENVIRONMENT, "").split(",") if n.strip())
    found = _once_each(_named(named) if named else _automatic())
    if calibrated:
        for device in found.devices:
            verdict.apply(device)
    return found


def _named(names: Sequence[str]) -> Found:
    # All names are resolved before any device is opened: a misspelt last one leaves nothing open.
    targets = [(name, *_resolve(name)) for name in names]
    found = Found()
    try:
        for name, vendor, argument in targets:
            found += _named_one(name, vendor, argument=argument)
    except BaseException:
        for device in found.devices:
            device.close()
        raise
    return found


def _named_one(name: str, vendor: Any, *, argument: str) -> Found:
    try:
        found: Found = vendor.find(argument)
    except JouleLabError:
        raise
    except Exception as error:  # vendor libraries raise anything; the user gets words
        raise SensorError(f"device '{name}': {_words(error)}", cure="run `joulelab doctor`") from error
    if not found.devices:
        raise SensorError(
            f"device '{name}': " + ("; ".join(p.what for p in found.problems) or "nothing was found"),
            cure="; ".join(p.cure for p in found.problems if p.cure) or "run `joulelab doctor`",
        )
    return found


def _automatic() -> Found:
    found = Found()
    for name in AUTOMATIC:
        found += _look(name)
    if any(d.source in {"counter", "integrated"} for d in found.devices):
        return found
    estimate = _look("estimate")
    if not estimate.devices:
        return found + estimate
    return (
        found
        + estimate
        + Found(
            problems=(
                Problem(
                    vendor="estimate",
                    what="no energy sensor was found: every figure is an estimate from CPU time and memory",
                    cure="mend one of the sensors named here, or measure on a machine that has one",
                ),
            )
        )
    )


def _look(name: str) -> Found:
    """One vendor of the automatic search, where everything that goes wrong is a Problem."""
    try:
        found: Found = plugin.load(DEVICES, name, what="device").find("")
    except Exception as error:  # noqa: BLE001 - a broken vendor library must not stop a measurement
        return Found(problems=(Problem(vendor=name, what=_words(error), cure="run `joulelab doctor`"),))
    return found


def _resolve(name: str) -> tuple[Any, str]:
    head, _, rest = name.partition(":")
    if head in DEVICES:
        return plugin.load(DEVICES, head, what="device"), rest
    if not rest or not _exists(head):
        raise unknown("device", name, DEVICES)
    class_name, _, argument = rest.partition(":")
    return plugin.load(DEVICES, f"{head}:{class_name}", what="device"), argument


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _once_each(found: Found) -> Found:
    """Two names for one device would count it twice."""
    kept: dict[str, Device] = {}
    problems = list(found.problems)
    for device in found.devices:
        if device.uid in kept:
            device.close()
            what = f"'{device.uid}' was named twice; it is counted once"
            problems.append(Problem(vendor="find", what=what, cure="name each device once"))
        else:
            kept[device.uid] = device
    return Found(tuple(kept.values()), tuple(problems))


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
