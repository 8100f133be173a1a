# SPDX-License-Identifier: Apache-2.0
"""Old records stay readable: each schema number knows the step to the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from joulelab.errors import RecordError
from joulelab.records.layout import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Content = dict[str, Any]


def _from_0(content: Content) -> Content:
    """Schema 0: files written before they said their number; a spec then called its knobs `settings`."""
    upgraded = {("knobs" if key == "settings" else key): value for key, value in content.items()}
    return {**upgraded, "schema": 1}


# From a schema number to the step that leads to the next one.
STEPS: dict[int, Callable[[Content], Content]] = {0: _from_0}


def upgrade(content: Content, *, path: Path) -> Content:
    """`content` as today's schema has it; a newer one is refused, for a guess would be a wrong number."""
    number = content.get("schema", 0)
    if not isinstance(number, int) or number < 0:
        raise RecordError(
            f"{path}: schema {number!r} is not legal",
            cure=f"legal: 0 to {SCHEMA}; the record is damaged: run that trial again",
        )
    if number > SCHEMA:
        raise RecordError(
            f"{path}: schema {number!r} is newer than this JouleLab reads (up to {SCHEMA})",
            cure="update JouleLab: pip install --upgrade joulelab",
        )
    while number < SCHEMA:
        content = STEPS[number](content)
        number = content["schema"]
    return content
