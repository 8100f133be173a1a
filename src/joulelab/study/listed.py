# SPDX-License-Identifier: Apache-2.0
"""The trials of a plan as a run of it goes through them, and what it tells of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from joulelab.launch.progress import OnProgress, Progress, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from joulelab.records.layout import TrialFolder
    from joulelab.records.parameter import Scalar
    from joulelab.records.trial import TrialSpec


@dataclass(frozen=True)
class Listed:
    index: int  # its place in the plan, from 1
    folder: TrialFolder
    spec: TrialSpec
    settings: dict[str, Scalar]  # what varies in the study
    failure_before: tuple[int, int] | None  # what failed.json was when this run began

    def failed_since(self) -> bool:
        failure = failure_of(self.folder)
        return failure is not None and failure != self.failure_before


def listed(
    folders: Sequence[TrialFolder], specs: Sequence[TrialSpec], *, varied: Sequence[str]
) -> list[Listed]:
    trials = []
    for index, (folder, spec) in enumerate(zip(folders, specs, strict=True), start=1):
        values = {**spec.parameters, **spec.knobs}
        settings = {name: values[name] for name in varied}
        trials.append(Listed(index, folder, spec, settings, failure_of(folder)))
    return trials


def failure_of(folder: TrialFolder) -> tuple[int, int] | None:
    try:
        status = folder.failed.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_ino


@dataclass
class Story:
    """What this run has done so far, and whom it tells."""

    of: int
    on_progress: OnProgress
    ran: list[TrialFolder] = field(default_factory=list)
    ended: int = 0

    def tell(
        self,
        kind: str,
        trial: Listed | None = None,
        *,
        step: Step | None = None,
        state: str = "",
        text: str = "",
    ) -> None:
        self.on_progress(
            Progress(
                kind=kind,
                of=self.of,
                ended=self.ended,
                index=trial.index if trial else 0,
                name=trial.folder.path.name if trial else "",
                settings=trial.settings if trial else {},
                step=step,
                state=state,
                text=text,
            )
        )
