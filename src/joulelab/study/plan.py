# SPDX-License-Identifier: Apache-2.0
"""From a study to its trials, and to the folders that hold them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from joulelab.errors import RecordError
from joulelab.knobs.sharing import check_shared
from joulelab.records import store
from joulelab.records.layout import StudyFolder, TrialFolder
from joulelab.records.trial import TrialSpec
from joulelab.study.check import recipe_of
from joulelab.study.study_file import Study

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


def plan(study: Study) -> list[TrialSpec]:
    """Every trial of the study: the product of the grid's lists, the last written varies fastest."""
    listened = recipe_of(study.workload).listens()
    parameter_names = {p.name for p in recipe_of(study.workload).parameters} - set(listened)
    specs = []
    for values in itertools.product(*study.grid.values()):
        point = dict(zip(study.grid, values, strict=True))
        knobs = study.knobs | {n: v for n, v in point.items() if n not in parameter_names}
        check_shared({**recipe_of(study.workload).listens(), **knobs})
        specs.append(
            TrialSpec(
                workload=study.workload,
                parameters=study.parameters | {n: v for n, v in point.items() if n in parameter_names},
                knobs=knobs,
                repeats=study.repeats,
                warmup=study.warmup,
                seed=study.seed,
                devices=study.devices,
                small=study.small,
            )
        )
    return specs


def write_plan(folder: StudyFolder, specs: Sequence[TrialSpec]) -> list[TrialFolder]:
    """A folder with spec.json for each trial, in the order of the plan; those that exist are left alone."""
    planned = [folder.trial(spec.folder_name()) for spec in specs]
    for trial, spec in zip(planned, specs, strict=True):
        if not _is_there(trial):
            store.make_one(trial.path)
            store.write_json(trial.spec, spec)
    return planned


def _is_there(trial: TrialFolder) -> bool:
    """Whether the trial's spec can be read. What it says is in the folder's name, so it can be mended."""
    if not trial.spec.exists():
        return False
    try:
        store.read_json(trial.spec, TrialSpec)
    except RecordError:
        return False
    return True


def strangers(folder: StudyFolder, planned: Iterable[TrialFolder]) -> list[TrialFolder]:
    """Trials in the folder that the plan does not ask for: of an earlier state of the study file."""
    names = {trial.path.name for trial in planned}
    if not folder.trials.is_dir():
        return []
    present = sorted(path.name for path in folder.trials.iterdir() if path.is_dir())
    return [folder.trial(name) for name in present if name not in names]


def strangers_below(path: Path) -> frozenset[str]:
    """Names of the trials at `path` that its study does not plan any more; none where it is no study."""
    study = study_at(path)
    if study is None:
        return frozenset()
    trials = strangers(StudyFolder(path), ())
    return frozenset(trial.path.name for trial in trials if not _asks_for(study, trial))


def study_at(path: Path) -> Study | None:
    """The study whose folder this is; None where it is none, or its file is damaged."""
    folder = StudyFolder(path)
    if not folder.study.exists():
        return None
    try:
        return store.read_json(folder.study, Study)
    except RecordError:
        return None  # the trials can be read all the same


def _asks_for(study: Study, trial: TrialFolder) -> bool:
    """Told from the two files alone: a record is read also where its workload is not installed."""
    try:
        spec = store.read_json(trial.spec, TrialSpec)
    except RecordError:
        return True  # it stays among the others, as damaged
    fixed = {**study.parameters, **study.knobs}
    given = {**spec.parameters, **spec.knobs}
    return (
        (spec.workload, spec.repeats, spec.warmup, spec.seed, spec.devices, spec.small)
        == (study.workload, study.repeats, study.warmup, study.seed, study.devices, study.small)
        and given.keys() == fixed.keys() | study.grid.keys()
        and all(given[name] == value for name, value in fixed.items())
        and all(given[name] in values for name, values in study.grid.items())
    )
