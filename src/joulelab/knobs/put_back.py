# SPDX-License-Identifier: Apache-2.0
"""Caps back to what was found: by the process that set them, by its guardian, or by the next command here.

All three do the same, and doing it twice does no harm. Standard library only: the guardian imports this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from joulelab.errors import JouleLabError, RecordError, SensorError
from joulelab.hardware.find_caps import reopen

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.hardware.cap import Cap
    from joulelab.knobs.lease import Lease, LeaseFolder

Say = Callable[[str], None]


def put_back(cap: Cap, lease: Lease) -> list[str]:
    """Move every control that is not as it was found; what was left alone and why, in words.

    A limit that is neither as found nor as asked was set by somebody else meanwhile, an administrator or a
    driver that was loaded anew. It is theirs, and stays.
    """
    left = []
    now = cap.controls()
    for control, found in reversed(lease.found.items()):
        value = now.get(control)
        if value is None or value == found:
            continue
        if control in lease.asked and not cap.same(control, value, lease.asked[control]):
            left.append(
                f"{lease.uid}: {control} is {value}, neither {found} as found nor "
                f"{lease.asked[control]} as set: "
                "somebody else has set it, so it is left alone"
            )
            continue
        cap.write(control, found)
    if not left:
        now = cap.controls()
        wrong = [name for name, found in lease.found.items() if not cap.same(name, now.get(name, -1), found)]
        if wrong:
            raise SensorError(
                f"{lease.uid}: {wrong[0]} is {now.get(wrong[0])} after {lease.found[wrong[0]]} was written",
                cure="`joulelab caps restore` tries again; see `joulelab caps`",
            )
    return left


def put_back_from_file(lease: Lease, *, turn: Path) -> list[str]:
    """The same, from the lease alone."""
    cap = reopen(lease.vendor, lease.argument, lease.uid)
    cap.turn = turn
    try:
        return put_back(cap, lease)
    finally:
        cap.close()


def repair(folder: LeaseFolder, *, say: Say, uid: str = "") -> bool:
    """Put back what no process looks after any more, of one device or of all. False: something was not.

    Whoever still holds a cap is left alone. Quick where there is nothing to do, for every command asks.
    """
    fine = True
    for lease in folder.leases():
        if (uid and lease.uid != uid) or not lease.is_here() or lease.holder_lives():
            continue
        try:
            fine &= repair_one(folder, lease, say=say)
        except (JouleLabError, OSError) as error:
            say(f"the cap of {lease.uid} could not be put back: {error}")
            fine = False
    for path in folder.damaged():
        say(
            f"{path} cannot be read: nobody can tell from it what was found; look at `joulelab caps`, "
            f"then remove it"
        )
        fine = False
    return fine


def repair_one(folder: LeaseFolder, lease: Lease, *, say: Say) -> bool:
    with folder.lock(lease.uid) as mine:
        if not mine or folder.read(lease.uid) != lease:
            return True  # another process is at it, or was quicker
        return settle(folder, lease, say=say)


def settle(folder: LeaseFolder, lease: Lease, *, say: Say) -> bool:
    """What a dead holder left, put back by whoever has the device's lock."""
    if lease.is_outlived():
        folder.remove(lease)
        say(
            f"{lease.uid}: the machine has started again since {lease.holder()} capped it: nothing to "
            f"put back"
        )
        return True
    if not folder.is_mine(lease.uid):
        raise RecordError(
            f"{folder.file(lease.uid)} belongs to another user: {lease.holder()}",
            cure="that user runs `joulelab caps restore`; as root: runuser -u USER -- joulelab caps restore",
        )
    folder.wait_for_helpers(lease.uid)
    left = put_back_from_file(lease, turn=folder.turn(lease.uid))
    folder.remove(lease)
    for words in left:
        say(words)
    if not left:
        say(f"{lease.uid}: put back to what {lease.holder()} had found ({_words(lease)})")
    return True


def _words(lease: Lease) -> str:
    return ", ".join(f"{name} = {value}" for name, value in lease.found.items())
