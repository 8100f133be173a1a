# SPDX-License-Identifier: Apache-2.0
"""What an earlier attempt at a trial left is set aside, so that two attempts never mix in one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.records.layout import TrialFolder


def written(folder: TrialFolder) -> list[Path]:
    """Of the files that an attempt writes, those that are there."""
    paths = (
        folder.host,
        folder.windows,
        folder.power,
        folder.events,
        folder.metrics,
        folder.result,
        folder.log,
        folder.failed,
        folder.ranks,
        folder.nodes,
    )
    return [path for path in paths if path.exists()]


def count(folder: TrialFolder) -> int:
    """How many attempts have been set aside."""
    return sum(1 for _ in (folder.path / "attempts").glob("*"))


def earlier(folder: TrialFolder, number: int) -> Path:
    """Where the files of an attempt are, counted from 1, once it has been set aside."""
    return folder.path / "attempts" / str(number)


def set_aside(folder: TrialFolder) -> Path | None:
    """Move the files of an attempt that did not end well into attempts/1, 2, ...; None where there was none.

    The spec stays, and so does a checkpoint: they belong to the trial, not to the attempt.
    """
    left = written(folder)
    if not left:
        return None
    aside = earlier(folder, 1 + count(folder))
    aside.mkdir(parents=True)
    for path in left:
        path.replace(aside / path.name)
    return aside
