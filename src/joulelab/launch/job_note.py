# SPDX-License-Identifier: Apache-2.0
"""Which job of a scheduler has a trial: written in its folder, so that no second one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from joulelab.errors import RecordError
from joulelab.records import store
from joulelab.records.layout import SCHEMA

if TYPE_CHECKING:
    from joulelab.records.layout import TrialFolder


class JobNote(msgspec.Struct, frozen=True, kw_only=True):
    """The job that has the trial, until that job is over."""

    scheduler: str
    job: str  # as the scheduler names it, with the place in an array: 123 or 123_4
    name: str = ""  # of the job: numbers begin anew on another cluster
    schema: int = SCHEMA


def read_note(folder: TrialFolder) -> JobNote | None:
    """None where no job was asked for, or nobody can tell which: then the job itself will say."""
    try:
        return store.read_json(folder.job, JobNote)
    except RecordError:
        return None


def write_note(folder: TrialFolder, note: JobNote) -> None:
    store.write_json(folder.job, note)
