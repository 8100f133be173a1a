# SPDX-License-Identifier: Apache-2.0
"""The machines behind a set of records, in a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from joulelab.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from joulelab.records.store import TrialRecord


def machines(records: Sequence[TrialRecord]) -> list[str]:
    """Each machine once, in the order met: its name, processor, and what was metered there."""
    return list(dict.fromkeys(filter(None, (_words(_host(record)) for record in records))))


def model_error(records: Sequence[TrialRecord]) -> float | None:
    """The stated error of the estimates' model, where the records tell it: the largest."""
    devices = [device for record in records for device in _host(record).get("devices", [])]
    errors = [d["gain_error"] for d in devices if d.get("source") == "estimated" and d.get("gain_error")]
    return max(errors, default=None)


def _host(record: TrialRecord) -> dict[str, Any]:
    try:
        return record.host
    except RecordError:
        return {}


def _words(host: dict[str, Any]) -> str:
    if not host:
        return ""
    names = dict.fromkeys(str(device.get("name") or device.get("uid")) for device in host.get("devices", []))
    cpu = f"{host.get('cpu')}, {host.get('cpu_usable')} CPUs" if host.get("cpu") else ""
    metered = f"metered: {', '.join(names)}" if names else ""
    inside = "; ".join(filter(None, (cpu, metered)))
    return f"{host.get('host', 'unknown host')} ({inside})" if inside else str(host.get("host", ""))
