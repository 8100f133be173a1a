# SPDX-License-Identifier: Apache-2.0
"""Records in, a table out: each trial beside a reference that is like it in all but named settings.

A change is a share of the reference's mean, that of an accuracy a difference. Its interval comes from the
spreads of the repeats on both sides; one that holds zero shows no difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from joulelab.analysis.order import by_settings, place_of
from joulelab.analysis.student import change, mean
from joulelab.analysis.trials import (
    accuracy_figure,
    accuracy_of,
    j_per_sample,
    known,
    measured,
    settings_of,
    simulated,
    varying,
)
from joulelab.errors import InputError, RecordError, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from joulelab.records.store import TrialRecord
    from joulelab.records.trial import Repeat

ENERGIES = ("j_per_sample", "energy_j", "to_target_j")
FIGURES = (*ENERGIES, "time_s", "accuracy")
# What a training that stops at its target cost means nothing beside one that never got there.
TO_TARGET = ("energy_j", "to_target_j", "time_s")
TYPES: dict[str, Any] = {
    "trial": pl.String,
    "reference": pl.String,
    "is_reference": pl.Boolean,
    "host": pl.String,
    "source": pl.String,
    "simulated": pl.Boolean,
    "small": pl.Boolean,
    "accuracy_figure": pl.String,
    "other_source": pl.Boolean,
    "short": pl.Boolean,
    "missed_target": pl.Boolean,
    "n": pl.Int64,
    "n_reference": pl.Int64,
    **{
        name: kind
        for figure in FIGURES
        for name, kind in (
            (figure, pl.Float64),
            (f"{figure}_reference", pl.Float64),
            (f"{figure}_change", pl.Float64),
            (f"{figure}_change_ci", pl.Float64),
            (f"{figure}_seen", pl.Boolean),
        )
    },
}
# How often and from which seed on: no reason for another mean.
_FREE = ("repeats", "seed")

Row = dict[str, Any]


def against(
    records: Sequence[TrialRecord],
    reference: Mapping[str, object],
    *,
    lists: Mapping[str, Sequence[object]] | None = None,
) -> pl.DataFrame:
    """A row for each trial that is done and valid, by settings; one that has no reference has no changes."""
    usable = [trial for record in records if (trial := _Trial.of(record)) is not None]
    columns = {
        (f"{name}_setting" if name in TYPES else name): name
        for name in varying([trial.record for trial in usable])
    }
    _refuse_unknown(usable, reference)
    rows = [_row(trial, _references(trial, usable, reference)) for trial in usable]
    settings = [[trial.settings.get(name) for trial in usable] for name in columns.values()]
    table = pl.DataFrame(
        [
            *(
                pl.Series(n, _alike(values), strict=False)
                for n, values in zip(columns, settings, strict=True)
            ),
            *(pl.Series(name, [row[name] for row in rows], dtype=kind) for name, kind in TYPES.items()),
        ]
    )
    return by_settings(table, list(columns), lists=lists or {})


def _alike(values: Sequence[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    mixed = len(kinds) > 1 and not kinds <= {int, float}
    return [str(value) if mixed and value is not None else value for value in values]


class _Trial:
    """A trial that may be compared: its settings, and each figure of each repeat."""

    def __init__(self, record: TrialRecord, repeats: Sequence[Repeat]) -> None:
        self.record = record
        self.name = record.folder.path.name
        self.settings = settings_of(record.spec)
        self.host = record.host.get("host")
        self.small = record.spec.small
        self.n = len(repeats)
        sources = {repeat.total.source for repeat in repeats if repeat.total.energy_j is not None}
        self.source = "mixed" if len(sources) > 1 else next(iter(sources), None)
        self.simulated = any(simulated(repeat.total.flags) for repeat in repeats)
        self.short = any(flag.startswith("short") for repeat in repeats for flag in repeat.total.flags)
        asked = [repeat for repeat in repeats if repeat.reached is not None]
        self.missed = not all(repeat.reached for repeat in asked) if asked else None
        self.accuracy_figure = accuracy_figure(repeats)
        self.values = _values(repeats, to_target=self.missed is False)

    @classmethod
    def of(cls, record: TrialRecord) -> _Trial | None:
        try:
            result = record.result if record.state == "done" else None
            repeats = measured(result) if result is not None else []
            return cls(record, repeats) if repeats else None
        except RecordError:
            return None

    def has(self, reference: Mapping[str, object]) -> bool:
        return all(_same(self.settings.get(name), value) for name, value in reference.items())

    def is_like(self, other: _Trial, *, but: Iterable[str]) -> bool:
        """Nothing else could be the reason for a difference between the two."""
        free = {*_FREE, *but}
        names = (self.settings.keys() | other.settings.keys()) - free
        return (self.host, self.small) == (other.host, other.small) and all(
            self.settings.get(name) == other.settings.get(name) for name in names
        )

    def metered_like(self, other: _Trial) -> bool:
        return self.source != "mixed" and (self.source, self.simulated) == (other.source, other.simulated)


def _values(repeats: Sequence[Repeat], *, to_target: bool) -> dict[str, list[float]]:
    """Each figure, repeat by repeat; none where a repeat lacks it."""
    energies = known(repeat.total.energy_j for repeat in repeats) or []
    accuracies = known(accuracy_of(repeat.metrics) for repeat in repeats) or []
    return {
        "j_per_sample": j_per_sample(repeats),
        "energy_j": energies,
        "to_target_j": energies if to_target else [],
        "time_s": [repeat.total.time_s for repeat in repeats],
        "accuracy": accuracies,
    }


def _same(value: object, asked: object) -> bool:
    """A setting, and how it was asked for: perhaps as the text of a command line."""
    if str(value) == str(asked):
        return True
    try:
        number = float(str(asked))
    except ValueError:
        return isinstance(value, bool) and str(value).lower() == str(asked)
    return isinstance(value, int | float) and not isinstance(value, bool) and value == number


def _refuse_unknown(usable: Sequence[_Trial], reference: Mapping[str, object]) -> None:
    if not usable:
        raise InputError("no trial here is done and valid", cure="nothing can be compared before one is")
    words = ",".join(f"{name}={value}" for name, value in reference.items())
    for name, value in reference.items():
        legal = {key for trial in usable for key in trial.settings}
        if name not in legal:
            raise unknown("setting", name, legal, where=f"against {words}")
        found = sorted({str(trial.settings.get(name)) for trial in usable}, key=place_of)
        if not any(_same(trial.settings.get(name), value) for trial in usable):
            raise InputError(
                f"against {words}: no trial that is done and valid has {name}={value}",
                cure=f"legal: {', '.join(found)}",
            )
    if not any(trial.has(reference) for trial in usable):
        raise InputError(
            f"against {words}: no trial that is done and valid has all of them", cure="name fewer of them"
        )


def _references(trial: _Trial, usable: Sequence[_Trial], reference: Mapping[str, object]) -> list[_Trial]:
    return [other for other in usable if other.has(reference) and other.is_like(trial, but=reference)]


def _only_other_sources(trial: _Trial, references: Sequence[_Trial]) -> bool:
    """Energies are known on both sides, and none of them may be compared."""
    sources = [other for other in references if other.source is not None]
    return trial.source is not None and bool(sources) and not any(o.metered_like(trial) for o in sources)


def _row(trial: _Trial, references: Sequence[_Trial]) -> Row:
    row: Row = {
        **dict.fromkeys(TYPES),
        "trial": trial.name,
        "reference": "; ".join(other.name for other in references) or None,
        "is_reference": trial in references,
        "host": trial.host,
        "source": trial.source,
        "simulated": trial.simulated,
        "small": trial.small,
        "accuracy_figure": trial.accuracy_figure,
        "other_source": _only_other_sources(trial, references),
        "short": trial.short or any(other.short for other in references),
        "missed_target": trial.missed,
        "n": trial.n,
        "n_reference": sum(other.n for other in references) or None,
    }
    for figure in FIGURES:
        mixed = figure in ENERGIES and trial.source == "mixed"
        mine = [] if mixed else trial.values[figure]
        row[figure] = mean(mine)
        if trial in references:
            continue  # of itself it differs in nothing
        # Energies of different sources do not compare, and neither do simulated and real ones.
        fit = [o for o in references if figure not in ENERGIES or o.metered_like(trial)]
        if figure in TO_TARGET and (trial.missed or any(other.missed for other in fit)):
            continue
        theirs = [value for other in fit for value in other.values[figure]]
        found, half = change(mine, theirs, share=figure != "accuracy")
        row |= {
            f"{figure}_reference": mean(theirs),
            f"{figure}_change": found,
            f"{figure}_change_ci": half,
            f"{figure}_seen": None if found is None or half is None else abs(found) > half,
        }
    return row
