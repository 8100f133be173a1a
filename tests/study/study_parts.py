# SPDX-License-Identifier: Apache-2.0
"""A workload, a launcher and a worker of a few lines: studies run in tests without any training."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from joulelab.launch.local import Local
from joulelab.records import store
from joulelab.records.layout import TrialFolder
from joulelab.records.parameter import Parameter
from joulelab.records.trial import Result, TrialSpec
from joulelab.workloads.recipe import Recipe

if TYPE_CHECKING:
    from types import FrameType

WAYS = ("well", "fails", "fails once", "invalid", "dies", "says nothing")


class Quick:
    recipe = Recipe(
        summary="sleeps",
        parameters=(
            Parameter(name="number", kind="int", default=0, help="tells trials apart"),
            Parameter(name="seconds", kind="float", default=0.0, minimum=0.0, help="how long it sleeps"),
            Parameter(name="ends", kind="str", default="well", choices=WAYS, help="how it ends"),
        ),
    )


class QuickLauncher(Local):
    module = "study_parts"


def main(path: Path) -> int:
    folder = TrialFolder(path)
    began_ns = time.monotonic_ns()
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    # One line a start, in one call: how often a trial ran is the number of lines.
    descriptor = os.open(path / "starts.txt", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    os.close(descriptor)
    spec = store.read_json(folder.spec, TrialSpec)
    os.write(1, b"a line of the user's own\n")
    step = {"repeat": 1, "of": 1, "phase": "train", "epoch": 1, "epochs": 2}
    os.write(1, json.dumps({"progress": step}).encode() + b"\n")
    ends = spec.parameters["ends"]
    if ends == "fails once":
        ends = "well" if len((path / "starts.txt").read_text().splitlines()) > 1 else "fails"
    try:
        time.sleep(float(spec.parameters["seconds"]))
        if ends == "fails":
            raise ValueError("this trial was asked to fail")
    except KeyboardInterrupt:
        store.write_json(
            folder.failed, {"schema": 1, "state": "interrupted", "reason": "stopped", "exit_code": 130}
        )
        return 130
    if ends == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if ends == "says nothing":
        return 0
    valid = ends != "invalid"
    result = Result(
        state="done", time_s=1.0, energy_j=5.0, energy_error_j=0.5, valid=valid, reason="" if valid else "NaN"
    )
    store.write_json(folder.result, result)
    (path / "span.json").write_text(json.dumps([began_ns, time.monotonic_ns()]))
    folder.done.touch()
    return 0


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
