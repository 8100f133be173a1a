# SPDX-License-Identifier: Apache-2.0
"""What a worker does around its caps, without the training: `python victim.py JSON`, there to be killed.

It leaves children behind that hold every open file of their parent, as those do that load data.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import ExitStack

from joulelab.knobs.cpu_power_limit import CpuPowerLimit
from joulelab.knobs.knob import Site
from joulelab.knobs.lease import lease_folder
from joulelab.knobs.power_limit import PowerLimit
from joulelab.knobs.put_back import repair
from joulelab.train.stopping import Stopped, stoppable

CHILD_S = 20.0


def child() -> None:
    """A process that outlives its parent. It closes nothing and hears nothing."""
    if os.fork() == 0:
        time.sleep(CHILD_S)
        os._exit(0)


def main(text: str) -> int:
    asked = json.loads(text)
    site = Site(devices=tuple(asked["devices"]), trial="victim")
    child()
    with stoppable():
        try:
            repair(lease_folder(), say=print)
            with ExitStack() as put_back:
                for knob in (CpuPowerLimit(), PowerLimit()):
                    knob.site = site
                    value = knob.check(asked[knob.parameter.name])
                    put_back.enter_context(knob.applied(value))
                child()
                sys.stdout.write("capped\n")
                sys.stdout.flush()
                if asked["ends"] == "exception":
                    time.sleep(asked["after_s"])
                    raise ValueError("a user's mistake")
                if asked["ends"] == "out of memory":
                    time.sleep(asked["after_s"])
                    held = [bytearray(1 << 28) for _ in range(1 << 14)]  # 4 TiB, of the 1 GiB it may have
                    sys.stdout.write(f"{len(held)}\n")
                if asked["ends"] == "killed for memory":
                    time.sleep(asked["after_s"])
                    grown = [b"x" * (1 << 24) for _ in range(asked["grows"])]  # every page is written
                    sys.stdout.write(f"{len(grown)}\n")
                time.sleep(asked["hold_s"])
        except Stopped as stopped:
            return stopped.exit_code
        except (ValueError, MemoryError):
            return 1
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1])
    sys.stdout.flush()
    os._exit(code)  # as the worker does
