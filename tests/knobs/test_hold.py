# SPDX-License-Identifier: Apache-2.0
"""Caps are set, read back, noted and put back; what the device does not do is an error, not a figure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from joulelab.errors import SensorError
from joulelab.hardware.find_caps import find_caps
from joulelab.knobs import hold
from joulelab.knobs.hold import held
from joulelab.knobs.lease import LeaseFolder
from tests.fakes.caps import GPU_FOUND_MW, Machine, allow_sudo
from tests.fakes.nvml import FakeNvml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

VICTIM = Path(__file__).with_name("victim.py")


@pytest.fixture
def boards(machine: Machine) -> Iterator[AbstractContextManager[list[dict[str, Any]]]]:
    found = find_caps("gpu")
    yield held(
        [(cap, 300.0) for cap in found.caps], folder=LeaseFolder(machine.leases), trial="t", say=pytest.fail
    )
    found.close()


def test_set_read_back_and_put_back(
    machine: Machine, boards: AbstractContextManager[list[dict[str, Any]]]
) -> None:
    before = machine.state()
    with boards as rows:
        assert machine.gpu_log() == [(0, 300_000), (1, 300_000)]
        assert [(r["found_w"], r["asked_w"], r["in_force_w"], r["default_w"]) for r in rows] == [
            (500.0, 300.0, 300.0, 700.0)
        ] * 2
        leases = LeaseFolder(machine.leases).leases()
        assert [(lease.pid, lease.found, lease.trial) for lease in leases] == [
            (os.getpid(), {"limit_mw": GPU_FOUND_MW}, "t")
        ] * 2
    assert machine.state() == before
    assert LeaseFolder(machine.leases).leases() == []


def test_what_was_found_is_not_written_again(machine: Machine) -> None:
    found = find_caps("gpu")
    with held([(found.caps[0], 500.0)], folder=LeaseFolder(machine.leases), trial="", say=print):
        pass
    found.close()
    assert machine.gpu_log() == []


def test_after_an_exception_too(
    machine: Machine, boards: AbstractContextManager[list[dict[str, Any]]]
) -> None:
    with pytest.raises(KeyError), boards:
        raise KeyError
    assert machine.gpu_log() == [(0, 300_000), (1, 300_000), (1, GPU_FOUND_MW), (0, GPU_FOUND_MW)]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"may_set": 0}, "no permission to set 300 W"),
        ({"ignores_cap": 1}, "300000 was written to limit_mw, and 500000 is read back"),
        ({"other_limit_w": 250}, "300 W was set, and 250 W is in force"),
        ({"min_w": 350}, "300 W was refused"),
    ],
)
def test_what_the_device_does_not_do_is_an_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, config: dict[str, float], words: str
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # no sudo
    FakeNvml(machine.config).set(now_w=500, **config)
    found = find_caps("gpu")
    folder = LeaseFolder(machine.leases)
    with (
        pytest.raises(SensorError, match=words),
        held([(found.caps[0], 300.0)], folder=folder, trial="", say=print),
    ):
        pytest.fail("nothing runs under a cap that is not in force")
    assert found.caps[0].controls() == {"limit_mw": GPU_FOUND_MW}
    found.close()
    assert folder.leases() == []


def test_a_stop_in_the_middle_of_putting_back_does_not_end_it() -> None:
    calls: list[str] = []

    def action() -> None:
        calls.append("began")
        if len(calls) == 1:
            raise KeyboardInterrupt
        calls.append("ended")

    with pytest.raises(KeyboardInterrupt):
        hold._twice(action)
    assert calls == ["began", "began", "ended"]


def start(machine: Machine, **more: object) -> subprocess.Popen[str]:
    asked = {"devices": machine.devices, "power_limit": "60%", "cpu_power_limit": "as-is", "ends": "", **more}
    return subprocess.Popen(
        [sys.executable, str(VICTIM), json.dumps(asked)],
        env=machine.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_second_trial_waits_and_says_so(
    machine: Machine, boards: AbstractContextManager[list[dict[str, Any]]]
) -> None:
    with boards:
        second = start(machine, hold_s=0.0)
        assert second.stderr is not None
        said = second.stderr.readline()
        assert f"is capped by process {os.getpid()} (trial t)" in said
        time.sleep(0.3)
        assert second.poll() is None
        assert machine.gpu_log() == [(0, 300_000), (1, 300_000)], "it touches nothing while it waits"
    try:
        second.wait(20)
    finally:
        _end_children(second)
    assert machine.gpu_log()[4:] == [(0, 420_000), (1, 420_000), (1, 500_000), (0, 500_000)]
    assert machine.state()["gpu 0"] == GPU_FOUND_MW


def test_whoever_waits_can_be_stopped(
    machine: Machine, boards: AbstractContextManager[list[dict[str, Any]]]
) -> None:
    with boards:
        second = start(machine, hold_s=0.0)
        assert second.stderr is not None
        second.stderr.readline()
        second.send_signal(signal.SIGTERM)
        try:
            assert second.wait(20) == 128 + signal.SIGTERM
        finally:
            _end_children(second)
    assert [mw for _, mw in machine.gpu_log()] == [300_000, 300_000, 500_000, 500_000]


def test_the_next_trial_finds_what_the_dead_one_found(machine: Machine) -> None:
    """Both are dead, worker and guardian; the next one puts the first one's back."""
    first = start(machine, hold_s=20.0)
    assert first.stdout is not None
    try:
        assert first.stdout.readline() == "capped\n"
        for folder in Path("/proc").glob("[0-9]*"):
            words = _words(folder)
            if b"joulelab.knobs.guardian" in words and str(machine.leases).encode() in words:
                os.kill(int(folder.name), signal.SIGKILL)
        first.kill()
        first.wait()
        assert machine.state()["gpu 0"] == 420_000
        second = start(machine, power_limit=350, hold_s=0.0)
        second.wait(20)
        _end_children(second)
    finally:
        _end_children(first)
    assert [mw for board, mw in machine.gpu_log() if board == 0] == [420_000, 500_000, 350_000, 500_000]


def test_a_helper_that_outlives_its_worker_does_not_have_the_last_word(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker is killed while sudo is under way; that sets the cap when the worker has long gone."""
    FakeNvml(machine.config).set(now_w=500, may_set=0, gpus=1)
    monkeypatch.setenv("PATH", f"{allow_sudo(machine, seconds=0.5)}{os.pathsep}{os.environ['PATH']}")
    worker = start(machine, power_limit=300, hold_s=20.0)
    try:
        until = time.monotonic() + 20.0
        while not (machine.path / "sudo.log").exists() and time.monotonic() < until:
            time.sleep(0.01)
        worker.kill()
        worker.wait()
        assert machine.gpu_log() == []
        while LeaseFolder(machine.leases).leases() and time.monotonic() < until:
            time.sleep(0.01)
        assert machine.gpu_log() == [(0, 300_000), (0, GPU_FOUND_MW)]
    finally:
        _end_children(worker)


def _words(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""


def _end_children(process: subprocess.Popen[str]) -> None:
    """Those that outlive the victim on purpose; they bear its command line."""
    process.kill()
    assert isinstance(process.args, list)
    for folder in Path("/proc").glob("[0-9]*"):
        if str(process.args[2]).encode() in _words(folder):
            os.kill(int(folder.name), signal.SIGKILL)
    process.communicate()
