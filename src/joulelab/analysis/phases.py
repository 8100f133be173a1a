# SPDX-License-Identifier: Apache-2.0
"""Records in, a table out: one row a trial and phase, with the energy and time of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from joulelab.analysis.student import half_width, mean
from joulelab.analysis.trials import known, measured, simulated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from joulelab.records.measurement import Measurement
    from joulelab.records.store import TrialRecord
    from joulelab.records.trial import Repeat

OTHER = "other"
TYPES: dict[str, Any] = {
    "trial": pl.String,
    "phase": pl.String,
    "source": pl.String,
    "simulated": pl.Boolean,
    "n": pl.Int64,
    "energy_j": pl.Float64,
    "energy_ci_j": pl.Float64,
    "energy_error_j": pl.Float64,
    "energy_share": pl.Float64,
    "time_s": pl.Float64,
    "time_ci_s": pl.Float64,
    "power_w": pl.Float64,
}


def phases(records: Sequence[TrialRecord]) -> pl.DataFrame:
    """Means over the measured repeats of each valid trial; what lies in no phase is the row `other`."""
    rows = [row for record in records if record.state == "done" for row in _rows(record)]
    return pl.DataFrame(rows, schema=TYPES)


def _rows(record: TrialRecord) -> list[dict[str, Any]]:
    repeats = measured(record.result) if record.result is not None else []
    names = list(dict.fromkeys(name for repeat in repeats for name in repeat.phases))
    # A phase that one repeat lacks has no mean over the repeats.
    names = [name for name in names if all(name in repeat.phases for repeat in repeats)]
    if not names:
        return []
    rows = [_row([repeat.phases[name] for repeat in repeats], repeats, phase=name) for name in names]
    rows.append(_rest(rows, repeats))
    return [{"trial": record.folder.path.name, **row} for row in rows]


def _row(parts: Sequence[Measurement], repeats: Sequence[Repeat], *, phase: str) -> dict[str, Any]:
    sources = {part.source for part in parts}
    alike = len(sources) == 1
    energies = known(part.energy_j for part in parts) if alike else None
    errors = known(part.energy_error_j for part in parts) if alike else None
    totals = known(repeat.total.energy_j for repeat in repeats)
    times = [part.time_s for part in parts]
    return {
        "phase": phase,
        "source": sources.pop() if alike else "mixed",
        "simulated": any(simulated(part.flags) for part in parts),
        "n": len(parts),
        "energy_j": mean(energies) if energies else None,
        "energy_ci_j": half_width(energies) if energies else None,
        "energy_error_j": mean(errors) if errors else None,
        "energy_share": sum(energies) / sum(totals) if energies and totals and sum(totals) > 0 else None,
        "time_s": mean(times),
        "time_ci_s": half_width(times),
        "power_w": sum(energies) / sum(times) if energies and sum(times) > 0 else None,
    }


def _rest(rows: Sequence[dict[str, Any]], repeats: Sequence[Repeat]) -> dict[str, Any]:
    """Total less phases: building the model, and what happens between two phases."""
    total_j = mean(known(repeat.total.energy_j for repeat in repeats) or [])
    time_s = mean([repeat.total.time_s for repeat in repeats])
    in_phases = known(row["energy_j"] for row in rows)
    assert time_s is not None
    energy_j = total_j - sum(in_phases) if total_j is not None and in_phases is not None else None
    return {
        "phase": OTHER,
        "source": rows[0]["source"],
        "simulated": rows[0]["simulated"],
        "n": len(repeats),
        "energy_j": energy_j,
        "energy_share": energy_j / total_j if energy_j is not None and total_j else None,
        "time_s": time_s - sum(row["time_s"] for row in rows),
    }
