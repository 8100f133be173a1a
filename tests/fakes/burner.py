# SPDX-License-Identifier: Apache-2.0
"""A load that burns nothing: it writes the bursts into the file from which the stand-in takes its power.

`python burner.py FILE IDLE_W BUSY_W [--dies-after N | --refuses | --mute]`
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main(file: str, idle_w: str, busy_w: str, *how: str) -> None:
    path = Path(file)
    if "--refuses" in how:
        say({"refused": "torch 9.9 sees no GPU", "cure": "install another torch"})
        return
    sys.stdout.write("a library greets\n")
    say({"ready": "a stand-in"})
    for number, line in enumerate(sys.stdin):
        if "--dies-after" in how and number >= int(how[how.index("--dies-after") + 1]):
            return
        spans_s = json.loads(line)["spans_s"]
        with path.open("a", encoding="ascii") as out:
            out.writelines(f"{start_s:.9f} {busy_w}\n{end_s:.9f} {idle_w}\n" for start_s, end_s in spans_s)
        time.sleep(max(0.0, spans_s[-1][1] - time.monotonic()))
        if "--mute" not in how:
            say({"spans_s": spans_s})


def say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
