# SPDX-License-Identifier: Apache-2.0
"""Machines of their own for the ranks of a trial: network and name apart, a cable between them that is slow.

Needs the programs ip, tc and unshare, and root. Each rank is started by hand, as torchrun would start it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from joulelab.launch.local import import_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BURST_B = 16_000  # what the cable lets through at once, after a pause
RENAMED = 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"'


@dataclass(frozen=True)
class Machine:
    """Reached at `address` by the cable's end called `cable`."""

    name: str
    address: str
    cable: str


@contextmanager
def cabled(*, megabits: float) -> Iterator[tuple[Machine, Machine]]:
    """Two machines that send to each other at no more than that rate, and to nobody else."""
    absent = [name for name in ("ip", "tc", "unshare") if shutil.which(name) is None]
    if absent or os.geteuid():
        pytest.skip(f"a network of one's own needs root and ip, tc, unshare; missing: {absent or 'root'}")
    here = f"jl{os.getpid()}"
    first, second = (Machine(f"{here}-{k}", f"10.213.77.{k + 1}", f"{here}v{k}") for k in range(2))
    both = first, second
    try:
        try:
            for machine in both:
                _do("ip", "netns", "add", machine.name)
            ends = [("name", machine.cable, "netns", machine.name) for machine in both]
            _do("ip", "link", "add", *ends[0], "type", "veth", "peer", *ends[1])
            for machine in both:
                at = ("-n", machine.name)
                _do("ip", *at, "addr", "add", f"{machine.address}/24", "dev", machine.cable)
                _do("ip", *at, "link", "set", "lo", "up")
                _do("ip", *at, "link", "set", machine.cable, "up")
                shape = ("rate", f"{megabits}mbit", "burst", str(BURST_B), "latency", "10s")
                _do("tc", *at, "qdisc", "add", "dev", machine.cable, "root", "tbf", *shape)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network of one's own here: {error.cmd}: {error.stderr.strip()}")
        yield both
    finally:
        for machine in both:
            subprocess.run(["ip", "netns", "del", machine.name], capture_output=True, check=False)


def _do(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True, timeout=20.0)


def train_on(machines: tuple[Machine, Machine], folder: Path, *, timeout_s: float) -> str:
    """The trial of `folder`, a rank a machine. What they said."""
    ranks: list[subprocess.Popen[str]] = []
    try:
        for rank, machine in enumerate(machines):
            environment = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(len(machines)),
                "LOCAL_RANK": "0",
                "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": machines[0].address,
                "MASTER_PORT": "29400",  # nobody else is on this network
                "GLOO_SOCKET_IFNAME": machine.cable,
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": import_path(),
            }
            place = ["ip", "netns", "exec", machine.name, "unshare", "--uts", "sh", "-c", RENAMED, f"n{rank}"]
            ranks.append(
                subprocess.Popen(
                    [*place, sys.executable, "-P", "-m", "joulelab.train.worker", str(folder)],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        return "\n".join(process.communicate(timeout=timeout_s)[0] for process in ranks)
    finally:
        for process in ranks:
            process.kill()
            process.communicate()
