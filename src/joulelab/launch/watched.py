# SPDX-License-Identifier: Apache-2.0
"""Where a trial is, for whoever does not hear its worker: out of what it has written so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from joulelab.launch.progress import Step

if TYPE_CHECKING:
    from joulelab.records.layout import TrialFolder
    from joulelab.records.trial import TrialSpec

TAIL_BYTES = 8192


def last_step(folder: TrialFolder, spec: TrialSpec) -> Step | None:
    """The last epoch in metrics.jsonl; None where none has ended."""
    for line in reversed(_tail(folder)):
        try:
            said = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue  # a line that is being written, or cut off by where the tail begins
        if "repeat" not in said or "epoch" not in said:
            return None
        epochs = spec.knobs.get("epochs")
        known = {name: said[name] for name in ("repeat", "epoch") if isinstance(said[name], int)}
        figures = {name: said[name] for name in ("loss", "accuracy") if isinstance(said.get(name), float)}
        return msgspec.convert(
            {
                **known,
                **figures,
                "of": spec.repeats + spec.warmup,
                "warmup": said.get("warmup") is True,
                "epochs": epochs if isinstance(epochs, int) else None,
                "phase": "after",  # the next one is under way
            },
            Step,
        )
    return None


def _tail(folder: TrialFolder) -> list[bytes]:
    try:
        with folder.metrics.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            return file.read().splitlines()
    except OSError:
        return []
