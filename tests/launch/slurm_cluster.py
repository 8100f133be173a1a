# SPDX-License-Identifier: Apache-2.0
"""A Slurm of two nodes on this machine, with a key, ports and folders of its own: /etc is not touched."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo")
NODES = ("127.0.0.1", "127.0.0.2")  # names that resolve
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={home}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool-%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd-%n.pid
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MinJobAge=300
EnforcePartLimits=ALL
KillWait=10
SlurmdTimeout=2
MessageTimeout=2
TCPTimeout=1
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
NodeName=127.0.0.[1-2] NodeHostName={host} NodeAddr=127.0.0.[1-2] Port=[{ports[1]}-{ports[2]}] CPUs=2
PartitionName=debug Nodes=ALL Default=YES MaxTime=60 State=UP
"""


def missing() -> str:
    """Why no Slurm can be started here; empty if one can."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    gone = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    if gone:
        return f"no {gone[0]} here: `make system` installs Slurm"
    return "" if os.geteuid() == 0 else "Slurm is started by root only"


@dataclass
class Cluster:
    home: Path

    @property
    def configuration(self) -> Path:
        return self.home / "slurm.conf"

    def start(self) -> None:
        (self.home / "state").mkdir()
        key = self.home / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        text = CONFIGURATION.format(host=socket.gethostname(), home=self.home, ports=_ports())
        self.configuration.write_text(text, encoding="ascii")
        files = {"key": "key", "seed": "seed", "log": "log", "pid": "pid"}
        words = [f"--{name}-file={self.home}/munge.{ending}" for name, ending in files.items()]
        self._start("munged", "--force", f"--socket={self.home}/munge.socket", *words)
        self._start("slurmctld", "-c", "-f", str(self.configuration))
        for node in NODES:
            self.start_node(node)
        until(lambda: self.idle() == len(NODES), "all nodes are idle")

    def idle(self) -> int:
        return self.ask("sinfo", "-h", "-N", "-o", "%T").split().count("idle")

    def start_node(self, node: str) -> None:
        self._start("slurmd", "-f", str(self.configuration), "-N", node, JOULELAB_TEST_NODE=node)

    def lose_node(self, node: str) -> None:
        """As if its power had gone: the daemon, then what looks after jobs, then these; none says a word."""
        daemon = _pid(self.home / f"slurmd-{node}.pid")
        jobs, keepers = _with(f"SLURMD_NODENAME={node}"), _with(f"JOULELAB_TEST_NODE={node}")
        mine = {pid for pid in _with(f"SLURM_CONF={self.configuration}") if pid in jobs | keepers}
        for pid in [daemon, *(mine & keepers), *(mine - keepers)]:
            _kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError, subprocess.TimeoutExpired):
            self.ask("scancel", "--quiet", "-u", "0")
            until(lambda: not self.ask("squeue", "-h").strip(), "no job is left")
        pids = [pid for path in self.home.glob("*.pid") if (pid := _pid(path))]
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in pids:
                _kill(pid, number)
            with contextlib.suppress(AssertionError):
                until(
                    lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "all daemons have ended"
                )

    def ask(self, *command: str) -> str:
        return subprocess.run(
            command,
            env={**os.environ, "SLURM_CONF": str(self.configuration)},
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        ).stdout

    def _start(self, *command: str, **variables: str) -> None:
        """Start a daemon, which goes into the background when it is ready."""
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        program = shutil.which(command[0], path=path)
        assert program is not None
        with (self.home / f"{command[0]}.out").open("ab") as output:
            subprocess.run(
                [program, *command[1:]],
                env={**os.environ, "SLURM_CONF": str(self.configuration), "PATH": path, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
                check=True,
                timeout=30,
            )


def _with(variable: str) -> set[int]:
    """Processes with this in their environment."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.add(int(folder.name))
    return found


def _pid(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def _kill(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        if pid:
            os.kill(pid, number)


def _ports() -> list[int]:
    """Three that are free, one beside the other."""
    for first in range(20_000 + os.getpid() % 5_000, 32_000, 7):
        with contextlib.ExitStack() as opened:
            try:
                for port in range(first, first + 3):
                    opened.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return [first, first + 1, first + 2]
    raise AssertionError("no free ports")


def until(true: Callable[[], bool], what: str, *, seconds: float = 15.0) -> None:
    end_s = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end_s, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)
