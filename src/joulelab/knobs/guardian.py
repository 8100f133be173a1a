# SPDX-License-Identifier: Apache-2.0
"""The process that puts caps back when their holder could not.

It is started as `python -m joulelab.knobs.guardian FOLDER PID START`.

It sleeps until the holder has ended, on a descriptor of that very process: a pipe would stay open in the
children that load data, which may outlive their parent by seconds. The leases in the folder say what is to be
done. It hears no request to stop, for those come to the whole job, and then it is needed most.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from joulelab.errors import InputError, JouleLabError
from joulelab.knobs.lease import Lease, LeaseFolder
from joulelab.knobs.put_back import settle
from joulelab.records.process import started

if TYPE_CHECKING:
    from collections.abc import Sequence

READY = b"ready\n"
DONE = b"done\n"
# A device that does not let itself be put back is tried again; what then is left, the next command finds.
TRIES = 5
PAUSE_S = 0.2
LOCK_S = 30.0


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 3 or not arguments[1].isdigit():
        raise InputError(
            "a folder, a process and its start are wanted",
            cure="python -m joulelab.knobs.guardian FOLDER PID START; it is started by whoever sets a cap",
        )
    folder, pid, start = LeaseFolder(Path(arguments[0])), int(arguments[1]), arguments[2]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        # Memory is short when it is needed; only root may ask to be spared.
        Path("/proc/self/oom_score_adj").write_text("-900", encoding="ascii")
    if not _wait(pid, start):
        return 0
    mine = [lease for lease in folder.leases() if (lease.pid, lease.started) == (pid, start)]
    outcomes = [_put_back(folder, lease) for lease in mine]  # all of them, whatever comes of the first
    return 0 if all(outcomes) else 1


def _wait(pid: int, start: str) -> bool:
    """Until the holder has ended; False if it said before that all is put back."""
    try:
        holder = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    if started(pid) != start:
        return True
    os.write(1, READY)
    os.close(1)
    poll = select.poll()
    poll.register(holder, select.POLLIN)
    poll.register(0, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if ready.get(0, 0) & select.POLLIN and os.read(0, len(DONE)) == DONE:
            return False
        if holder in ready:
            return True
        # The other end was closed, by whomever: that alone says nothing.
        poll.unregister(0)


def _put_back(folder: LeaseFolder, lease: Lease) -> bool:
    for attempt in range(TRIES):
        try:
            return _once(folder, lease)
        except (JouleLabError, OSError) as error:
            _say(f"the cap of {lease.uid} could not be put back (try {attempt + 1} of {TRIES}): {error}")
            time.sleep(PAUSE_S)
    return False


def _once(folder: LeaseFolder, lease: Lease) -> bool:
    until = time.monotonic() + LOCK_S
    while folder.read(lease.uid) == lease and time.monotonic() < until:
        # Tried, not waited for: a trial that comes next may have the lock, has then put back, and keeps it
        # long.
        with folder.lock(lease.uid) as got:
            if got and folder.read(lease.uid) == lease:
                return settle(folder, lease, say=_say)
        time.sleep(0.01)
    return True


def _say(words: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"guardian: {words}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
