# SPDX-License-Identifier: Apache-2.0
"""A worker under power caps: they are in the record, and off before anything that takes time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from joulelab.knobs.lease import LeaseFolder
from joulelab.records import store
from joulelab.records.layout import TrialFolder
from joulelab.records.store import TrialRecord
from joulelab.records.trial import TrialSpec
from joulelab.report.table import text
from joulelab.train.worker import run_trial
from tests.fakes.nvml import FakeNvml
from tests.train.caps_parts import POWER, WatchingMeter

if TYPE_CHECKING:
    from tests.fakes.caps import Machine

ROOT = Path(__file__).parents[2]


def planned(path: Path, machine: Machine, *, workload: str = "Capped", **knobs: Any) -> TrialFolder:
    folder = TrialFolder(path)
    path.mkdir()
    asked = TrialSpec(
        workload=f"tests.train.caps_parts:{workload}", knobs={**POWER, **knobs}, devices=machine.devices
    )
    store.write_json(folder.spec, asked)
    return folder


def run(folder: TrialFolder, machine: Machine) -> tuple[int, WatchingMeter, list[dict[str, Any]]]:
    made: list[WatchingMeter] = []
    shown: list[dict[str, Any]] = []

    def open_meter(**settings: Any) -> WatchingMeter:
        made.append(WatchingMeter(state=machine.state, **settings))
        return made[0]

    code = run_trial(folder, on_progress=shown.append, open_meter=open_meter)  # type: ignore[arg-type]
    return code, made[0], shown


@pytest.mark.parametrize(("workload", "wanted"), [("Capped", 0), ("Failing", 1)])
def test_caps_are_recorded_and_off_before_the_figures_are_asked_for(
    machine: Machine, tmp_path: Path, workload: str, wanted: int
) -> None:
    before = machine.state()
    folder = planned(tmp_path / "trial", machine, workload=workload, power_limit="60%", cpu_power_limit="120")
    code, meter, _ = run(folder, machine)
    assert code == wanted
    assert machine.gpu_log()[:2] == [(0, 420_000), (1, 420_000)]
    assert meter.at_the_end == [before]
    assert machine.state() == before
    rows = store.read_json(folder.host, dict)["settings"]
    assert [(r["knob"], r["uid"], r["found_w"], r["in_force_w"], r["simulated"]) for r in rows] == [
        ("cpu_power_limit", "cpu:package-0", 180.0, 120.0, False),
        ("cpu_power_limit", "cpu:package-1", 180.0, 120.0, False),
        ("power_limit", "gpu:GPU-000000b0-1111-2222-3333-444444444444", 500.0, 420.0, False),
        ("power_limit", "gpu:GPU-000000b1-1111-2222-3333-444444444444", 500.0, 420.0, False),
    ]
    shown = text([TrialRecord(folder)], width=160)
    assert "cpu_power_limit: cpu:package-0 at 120 W, read back; found at 180 W, default 205 W" in shown


def test_a_trial_as_the_machine_is_touches_nothing(machine: Machine, tmp_path: Path) -> None:
    folder = planned(tmp_path / "trial", machine)
    code, _, _ = run(folder, machine)
    assert code == 0
    assert machine.gpu_log() == []
    assert list(machine.leases.iterdir()) == []
    assert store.read_json(folder.host, dict)["settings"] == []


def test_no_permission_ends_the_trial_before_anything_is_measured(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeNvml(machine.config).set(now_w=500, may_set=0)
    monkeypatch.setenv("PATH", "/nowhere")
    folder = planned(tmp_path / "trial", machine, power_limit="400")
    assert run_trial(folder, on_progress=lambda step: None, open_meter=pytest.fail) == 1
    reason = store.read_json(folder.failed, dict)["reason"]
    assert "no permission to set 400 W" in reason
    assert "NOPASSWD" in reason
    assert not folder.result.exists()
    assert LeaseFolder(machine.leases).leases() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_that_is_stopped_while_it_trains(
    machine: Machine, tmp_path: Path, number: signal.Signals
) -> None:
    before = machine.state()
    folder = planned(
        tmp_path / "trial",
        machine,
        workload="Endless",
        power_limit="400",
        cpu_power_limit="60%",
        epochs=10_000,
    )
    environment = {**machine.environment(), "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    with subprocess.Popen(
        [sys.executable, "-m", "joulelab.train.worker", str(folder.path)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        while '"train"' not in process.stdout.readline():
            pass
        assert machine.state()["gpu 0"] == 400_000
        process.send_signal(number)
        asked_s = time.monotonic()
        while machine.state() != before and time.monotonic() < asked_s + 2.0:
            time.sleep(0.005)
        assert machine.state() == before
        process.stdout.read()
        process.wait(30)
    until = time.monotonic() + 5.0
    while LeaseFolder(machine.leases).leases() and time.monotonic() < until:
        time.sleep(0.01)
    assert LeaseFolder(machine.leases).leases() == []
    assert {mw for _, mw in machine.gpu_log()} == {400_000, 500_000}
    assert (process.returncode, folder.result.exists()) == (
        (128 + number, True) if number == signal.SIGTERM else (-number, False)
    )
