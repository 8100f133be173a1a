# SPDX-License-Identifier: Apache-2.0
"""How a study stands after a run of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from joulelab.errors import RecordError
from joulelab.records.store import TrialRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from joulelab.records.layout import TrialFolder


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of a study did, and what is left."""

    planned: int
    ran: int  # by this run
    done: int  # of the plan, by whichever run
    failed: dict[str, str] = {}  # folder names of the plan's trials that failed, and why
    invalid: dict[str, str] = {}  # done, but their figures must not be used, and why
    left: int = 0  # neither done nor failed
    strangers: tuple[str, ...] = ()  # trials in the folder that the study file no longer asks for
    stopped: int = 0  # the signal that stopped this run

    @property
    def exit_code(self) -> int:
        """As a shell has it: 128 and the signal that stopped the run; 1 where a trial failed."""
        return 128 + self.stopped if self.stopped else int(bool(self.failed))

    def text(self) -> str:
        """The summary in words, a line for each thing that a person may have to act on."""
        lines = [f"{self.done} of {self.planned} trials done, {self.ran} in this run"]
        if self.stopped:
            lines.append(
                f"stopped; the same command goes on with the {self.left + len(self.failed)} that are left"
            )
        lines += [f"failed: {name}: {reason}" for name, reason in self.failed.items()]
        if self.failed and not self.stopped:
            lines.append("the same command tries what failed again; log.txt in the trial's folder says more")
        lines += [f"invalid: {name}: {reason}" for name, reason in self.invalid.items()]
        if self.strangers:
            lines.append(
                f"warning: the plan has changed: {len(self.strangers)} trials in this folder are not in it "
                f"any more; they stay, and are listed apart: {', '.join(self.strangers[:5])}"
                + (", ..." if self.strangers[5:] else "")
            )
        return "\n".join(lines)


def outcome(folder: TrialFolder) -> tuple[str, str]:
    """The state of a trial and the reason: done, invalid, failed, running or planned."""
    try:
        return _outcome(TrialRecord(folder))
    except RecordError as error:
        # One damaged record must not hide how the others ended.
        return "failed", f"{error.message}; to run it again, remove {folder.path}"


def _outcome(record: TrialRecord) -> tuple[str, str]:
    state = record.state
    if state == "done":
        result = record.result
        if result is not None and not result.valid:
            return "invalid", result.reason
        return "done", ""
    if state == "failed":
        return state, str(record.failure.get("reason", ""))
    return state, ""


def summarize(
    planned: Sequence[TrialFolder],
    *,
    ran: Sequence[TrialFolder],
    strangers: Sequence[TrialFolder],
    stopped: int,
) -> Summary:
    """The summary of a run, from what the folders say."""
    outcomes = {folder.path.name: outcome(folder) for folder in planned}
    states = [state for state, _ in outcomes.values()]
    return Summary(
        planned=len(planned),
        ran=len(ran),
        done=states.count("done") + states.count("invalid"),
        failed={name: reason for name, (state, reason) in outcomes.items() if state == "failed"},
        invalid={name: reason for name, (state, reason) in outcomes.items() if state == "invalid"},
        left=states.count("planned") + states.count("running"),
        strangers=tuple(folder.path.name for folder in strangers),
        stopped=stopped,
    )
