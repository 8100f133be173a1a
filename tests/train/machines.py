# SPDX-License-Identifier: Apache-2.0
"""A worker that takes itself for one on a machine of its own, with a clock of its own: `machines.py FOLDER`.

Each rank says that its host is called after it, and its clock is 5 s ahead for each machine further on.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

from joulelab.meter import owner
from joulelab.records.layout import TrialFolder
from joulelab.train import clocks, worker
from joulelab.train.distributed import Group

AHEAD_NS = 5_000_000_000

if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    socket.gethostname = lambda: f"n{rank}"
    os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"] = "0", "1"
    clock = time.monotonic_ns

    def shifted(self: Group) -> clocks.Offset:
        return clocks.offset(self.rank, [0, 1], None, lambda: clock() + rank * AHEAD_NS)

    Group.clock = shifted  # type: ignore[method-assign]
    exit_code = worker.run_trial(TrialFolder(Path(sys.argv[1])), on_progress=lambda _: None)
    owner.close_all()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
