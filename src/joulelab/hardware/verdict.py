# SPDX-License-Identifier: Apache-2.0
"""What `joulelab doctor --calibrate` found out about a board, kept where all meters of this machine look."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joulelab.errors import RecordError

if TYPE_CHECKING:
    from joulelab.hardware.device import Device

FOLDER = "JOULELAB_CALIBRATION"  # another folder than the usual one; "off": no verdict is read
SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """None: that could not be found out, and what the vendor's file assumes stays."""

    uid: str
    name: str
    driver: str  # another driver may sample in another way: the verdict holds for this one
    wall_ns: int
    counter_is_trusted: bool = True
    buffer_is_trusted: bool = True
    counter_period_s: float | None = None
    buffer_lag_s: float | None = None
    buffer_lag_error_s: float | None = None
    buffer_window_s: float | None = None
    words: tuple[str, ...] = ()


def folder() -> Path:
    """Where verdicts lie; it need not exist."""
    given = os.environ.get(FOLDER)
    if given:
        return Path(given)
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "joulelab" / "sensors"


def path_of(uid: str) -> Path:
    return folder() / (re.sub(r"[^A-Za-z0-9.-]", "_", uid) + ".json")


def keep(verdict: Verdict) -> Path:
    """Write it for the meters to come."""
    path = path_of(verdict.uid)
    beside = path.with_suffix(f".{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(
            json.dumps({"schema": SCHEMA, **asdict(verdict)}, indent=1) + "\n", encoding="utf-8"
        )
        beside.replace(path)
    except OSError as error:
        what = f"the verdict on {verdict.uid} cannot be kept in {path.parent}: {error.strerror}"
        raise RecordError(what, cure=f"export {FOLDER}=FOLDER that can be written") from error
    return path


def read(uid: str) -> Verdict | None:
    """The verdict on a board; None where there is none, or one that this version cannot read."""
    if os.environ.get(FOLDER) == "off":
        return None
    try:
        content: Any = json.loads(path_of(uid).read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA or content["uid"] != uid:
            return None
        known = {f.name: content[f.name] for f in fields(Verdict) if f.name in content}
        verdict = Verdict(**{**known, "words": tuple(known.get("words", ()))})
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):  # RuntimeError: a user without a home
        return None
    return verdict if _is_sound(verdict) else None


def apply(device: Device) -> str:
    """Let a board's traits be what was found on it. In words what was done; "" where there is no verdict."""
    verdict = read(device.uid)
    if verdict is None:
        return ""
    if verdict.driver != device.driver:
        return f"calibrated under driver {verdict.driver}, not under {device.driver}: not used"
    traits = device.traits
    changes: dict[str, Any] = {}
    if traits.counter_period_s is not None and verdict.counter_period_s is not None:
        changes["counter_period_s"] = verdict.counter_period_s
    if traits.buffer_period_s is not None:
        for name in ("buffer_lag_s", "buffer_lag_error_s", "buffer_window_s"):
            if getattr(verdict, name) is not None:
                changes[name] = getattr(verdict, name)
        if not verdict.buffer_is_trusted and traits.counter_period_s is not None:
            changes["buffer_period_s"] = None
    is_replaceable = traits.power_period_s is not None or (
        traits.buffer_period_s is not None and verdict.buffer_is_trusted
    )
    if traits.counter_period_s is not None and not verdict.counter_is_trusted and is_replaceable:
        changes["counter_period_s"] = None
        device.source = "integrated"
    device.traits = replace(traits, **changes)
    return f"calibrated under driver {verdict.driver}"


def _is_sound(verdict: Verdict) -> bool:
    lengths_s = (
        verdict.counter_period_s,
        verdict.buffer_lag_s,
        verdict.buffer_lag_error_s,
        verdict.buffer_window_s,
    )
    return all(s is None or (isinstance(s, int | float) and 0.0 <= s <= 10.0) for s in lengths_s)
