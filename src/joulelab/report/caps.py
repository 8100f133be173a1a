# SPDX-License-Identifier: Apache-2.0
"""Power caps for people: those of this machine, and those that trials were run under."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from joulelab.errors import RecordError, SensorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from joulelab.hardware.cap import Cap, FoundCaps
    from joulelab.knobs.lease import Lease, LeaseFolder
    from joulelab.records.store import TrialRecord


def text(found: FoundCaps, *, folder: LeaseFolder) -> str:
    """Each device with a cap, and each lease, those without a device too."""
    leases = {lease.uid: lease for lease in folder.leases()}
    lines: list[str] = []
    for cap in found.caps:
        lines += [*_device(cap, leases.pop(cap.uid, None)), ""]
    for lease in leases.values():
        lines += [f"{lease.uid}  {lease.name}  (its device was not found)", f"  {_holder(lease)}", ""]
    lines += [
        f"{path} cannot be read as a lease: remove it when the caps are as they should be"
        for path in folder.damaged()
    ]
    if not found.caps:
        lines += ["No device whose power can be capped was found.", ""]
        lines += [f"  {problem.vendor}: {problem.what}" for problem in found.problems] + [""]
    lines.append(f"leases: {folder.path}")
    return "\n".join(lines)


def notes(records: Sequence[TrialRecord]) -> list[str]:
    """What was capped to what, for those who read figures: one line for each cap that is not like another."""
    seen: dict[str, None] = {}
    for record in records:
        try:
            rows = record.host.get("settings") or []
        except RecordError:
            continue
        for row in rows:
            seen[_row(row)] = None
    return list(seen)


def _row(row: dict[str, Any]) -> str:
    default = f", default {row['default_w']:g} W" if row.get("default_w") else ""
    mark = "SIMULATED cap: " if row.get("simulated") else ""
    return (
        f"{mark}{row['knob']}: {row['uid']} at {row['in_force_w']:g} W, read back; "
        f"found at {row['found_w']:g} W{default}"
    )


def _device(cap: Cap, lease: Lease | None) -> list[str]:
    mark = "  (SIMULATED)" if cap.simulated else ""
    lines = [f"{cap.uid}  {cap.name}{mark}"]
    try:
        limits = cap.limits()
    except SensorError as error:
        lines.append(f"  {error.message}")
    else:
        top = f" to {limits.max_w:g}" if limits.max_w else " or more"
        default = f"{limits.default_w:g} W" if limits.default_w else "not told"
        lines.append(f"  in force: {limits.now_w:g} W; legal: {limits.min_w:g}{top} W; default: {default}")
    why = cap.why_not()
    if why:
        lines.append(f"  cannot be set: {why}")
        lines += [f"    {line.strip()}" for line in cap.cure().splitlines()]
    lines += [f"  note: {note}" for note in cap.notes()]
    if lease is not None:
        lines.append(f"  {_holder(lease)}")
    return lines


def _holder(lease: Lease) -> str:
    found = ", ".join(f"{name} = {value}" for name, value in lease.found.items())
    if lease.holder_lives():
        return f"capped at {lease.asked_w:g} W by {lease.holder()}; will go back to {found}"
    if not lease.is_here():
        return f"capped on {lease.host} by {lease.holder()}: only there can it be put back"
    if lease.is_outlived():
        return "left by a trial before the machine started again: `joulelab caps restore` forgets it"
    return f"LEFT at {lease.asked_w:g} W by {lease.holder()}, which is gone; `joulelab caps restore`: {found}"
