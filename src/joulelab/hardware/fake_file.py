# SPDX-License-Identifier: Apache-2.0
"""The file behind `fake:FILE.json`: one JSON object, or a list of them, each a group of equal devices."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from joulelab.errors import InputError, unknown
from joulelab.hardware.device import Limits
from joulelab.hardware.fake import Sensors
from joulelab.hardware.fake_cap import CapLog
from joulelab.hardware.loads import SHAPES, Load

KINDS = ("gpu", "cpu", "dram", "node")
OWN_KEYS = ("count", "kind", "uid", "seed", "shape", "load", "cap")


def read(file: str) -> list[dict[str, Any]]:
    """Arguments of `Fake`, one dict a device."""
    path = Path(file)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"fake: cannot read '{file}': {error.strerror}", cure="name a JSON file") from error
    except ValueError as error:
        raise InputError(f"fake: '{file}' is not JSON: {error}", cure="see docs/hardware.md") from error
    groups = content if isinstance(content, list) else [content]
    devices: list[dict[str, Any]] = []
    for group in groups:
        if not isinstance(group, dict):
            raise InputError(f"{file}: {group!r} is not an object", cure="see docs/hardware.md")
        devices += _group(group, stem=path.stem, file=file, first=len(devices))
    return devices


def _group(group: dict[str, Any], *, stem: str, file: str, first: int) -> list[dict[str, Any]]:
    sensor_keys = [f.name for f in fields(Sensors)]
    for key in group:
        if key not in sensor_keys and key not in OWN_KEYS:
            raise unknown("key", key, [*OWN_KEYS, *sensor_keys], where=file)
    count = group.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError(f"{file}: count = {count!r} is not legal", cure="legal: a whole number from 1")
    kind = group.get("kind", "gpu")
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS, where=file)
    given: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in group.items() if k in sensor_keys
    }
    for key, value in given.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (isinstance(value, tuple) if key == "denied" else is_number or value is None):
            raise InputError(f"{file}: {key} = {value!r} is not legal", cure="legal: a number")
    sensors = Sensors(**given)
    power = _load(group, file=file)
    cap = _checked(Limits, group["cap"], what="key of cap", file=file) if "cap" in group else None
    uid = group.get("uid", f"{kind}:fake-{stem}")
    return [
        {
            "power": power,
            "sensors": sensors,
            "uid": f"{uid}-{first + i}",
            "kind": kind,
            "cap": cap,
            "cap_log": CapLog(_beside(file, f"{uid}-{first + i}"), cap) if cap else None,
            "seed": group.get("seed", 0) + first + i,
        }
        for i in range(count)
    ]


def _beside(file: str, uid: str) -> Path:
    """Where the caps of one device are noted."""
    return Path(f"{file}.{uid.replace(':', '-').replace('/', '-')}.caps")


def _load(group: dict[str, Any], *, file: str) -> Load:
    shape = group.get("shape", "square")
    if shape not in SHAPES:
        raise unknown("shape", shape, SHAPES, where=file)
    made: Load = _checked(
        SHAPES[shape], group.get("load", {}), what=f"parameter of shape '{shape}'", file=file
    )
    return made


def _checked(cls: Any, given: Any, *, what: str, file: str) -> Any:
    """`cls(**given)`, where a wrong or missing name lists the right ones."""
    legal = inspect.signature(cls).parameters
    if not isinstance(given, dict):
        raise InputError(f"{file}: {given!r} is not an object", cure=f"legal keys: {', '.join(legal)}")
    for key in given:
        if key not in legal:
            raise unknown(what, key, legal, where=file)
    try:
        return cls(**given)
    except TypeError as error:
        raise InputError(f"{file}: {error}", cure=f"legal keys: {', '.join(legal)}") from error
