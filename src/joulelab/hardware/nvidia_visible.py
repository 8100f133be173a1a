# SPDX-License-Identifier: Apache-2.0
"""Which boards CUDA_VISIBLE_DEVICES leaves to a process. Pure: text and a list of boards in, choices out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Board:
    """A board in the order of NVML, which is the order of the PCI bus."""

    index: int
    uuid: str
    mig_uuids: tuple[str, ...] = ()  # empty: MIG is off
    mig_enabled: bool = False


@dataclass(frozen=True, kw_only=True)
class Choice:
    board: Board
    is_slice: bool  # the process uses a MIG slice of the board, not all of it


def select(visible: str | None, boards: Sequence[Board]) -> tuple[tuple[Choice, ...], str]:
    """The boards a process may use, each once, and the entry (if any) at which CUDA stops reading.

    CUDA's rules: entries are taken in order; the first that is negative or names nothing ends the list.
    """
    if visible is None:
        return tuple(Choice(board=b, is_slice=b.mig_enabled) for b in boards), ""
    chosen: dict[int, Choice] = {}
    for entry in (e.strip() for e in visible.split(",")):
        choice = _one(entry, boards)
        if choice is None:
            # A negative index is the usual way to say "no more"; nothing is wrong then.
            is_meant = entry.startswith("-") or not visible.strip()
            return tuple(chosen.values()), "" if is_meant else entry
        chosen.setdefault(choice.board.index, choice)
    return tuple(chosen.values()), ""


def _one(entry: str, boards: Sequence[Board]) -> Choice | None:
    if re.fullmatch(r"\d+", entry):
        index = int(entry)
        return _whole(boards[index]) if index < len(boards) else None
    if entry.startswith("GPU-"):
        matches = [b for b in boards if b.uuid.startswith(entry)]
        return _whole(matches[0]) if len(matches) == 1 else None
    if entry.startswith("MIG-GPU-"):  # before driver 470: MIG-GPU-<uuid of the board>/<gi>/<ci>
        uuid = entry.removeprefix("MIG-").partition("/")[0]
        return next((Choice(board=b, is_slice=True) for b in boards if b.uuid == uuid), None)
    if entry.startswith("MIG-") and len(entry) > len("MIG-"):
        matches = [b for b in boards if any(u.startswith(entry) for u in b.mig_uuids)]
        return Choice(board=matches[0], is_slice=True) if len(matches) == 1 else None
    return None


def _whole(board: Board) -> Choice:
    # With MIG on, even an index gives the process only one slice.
    return Choice(board=board, is_slice=board.mig_enabled)
