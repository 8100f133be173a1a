# SPDX-License-Identifier: Apache-2.0
"""A trial in this process: nothing to start, easy to debug, and a crash takes the study with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from joulelab.errors import TrialError
from joulelab.launch.launcher import Launcher, Stopped, processes
from joulelab.launch.progress import OnStep, Step, ignore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from joulelab.records.layout import TrialFolder


class Inline(Launcher):
    """Calls what the worker process would call. Output goes where this process writes, not to log.txt."""

    def run(self, folder: TrialFolder, *, on_progress: OnStep = ignore, inherit: Sequence[int] = ()) -> int:
        del inherit  # this process holds them itself
        workers = processes(folder)
        if workers > 1:
            raise TrialError(
                f"workers = {workers}, and launcher 'inline' has one process", cure="launcher = 'local'"
            )
        # Imported here: it brings the training framework, which planning and watching do without.
        from joulelab.train.worker import run_trial

        def tell(step: dict[str, Any]) -> None:
            on_progress(msgspec.convert(step, Step))

        exit_code = run_trial(folder, on_progress=tell)
        if exit_code > 128:
            # As a shell says it, the worker was stopped by this signal.
            raise Stopped(exit_code - 128)
        return exit_code
