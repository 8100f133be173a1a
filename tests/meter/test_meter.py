# SPDX-License-Identifier: Apache-2.0
"""The meter as its users see it, with real processes."""

from __future__ import annotations

import csv
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from joulelab.errors import InputError, RecordError, SensorError
from joulelab.meter.meter import Meter
from joulelab.meter.session import WHOLE
from tests.meter.conftest import fakes

S = 1_000_000_000


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def windows_of(path: Path) -> list[dict[str, Any]]:
    """The program's own windows: without the head, and without the one that the record itself adds."""
    return [line for line in lines(path) if "id" in line and line["name"] != WHOLE]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int, *, within_s: float = 5.0) -> bool:
    until = time.monotonic() + within_s
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not alive(pid)


def test_a_run_is_measured_and_recorded(fake: str, weird_tmp_path: Path) -> None:
    out = weird_tmp_path / "trial"
    with Meter(out=out, devices=[fake]) as meter:
        sampler = meter.open().pid
        with meter.window("outer") as outer:
            with meter.window("inner") as inner:
                time.sleep(0.15)
            asked = time.monotonic()
            assert inner.energy_j == pytest.approx(400.0 * inner.time_s, abs=float(inner.energy_error_j or 0))
            assert time.monotonic() - asked < 0.5
            so_far = outer.so_far()
            assert so_far.energy_j is not None
            time.sleep(0.05)
        assert meter.device_list()[0]["simulated"] is True
        meter.flush()
        assert [line["name"] for line in windows_of(out / "windows.jsonl")] == ["inner", "outer"]
    assert gone(sampler, within_s=0.5)
    head, *windows = lines(out / "windows.jsonl")
    assert head["kind"] == "windows"
    assert head["devices"][0]["uid"] == "gpu:fake-devices-0-0"
    by_name = {window["name"]: window for window in windows}
    assert by_name["inner"]["parent"] == by_name["outer"]["id"]
    assert by_name["outer"]["parent"] is None
    assert by_name["inner"]["energy_j"] == inner.energy_j
    assert outer.energy_j == by_name["outer"]["energy_j"]
    assert by_name["outer"]["pid"] == os.getpid()
    assert by_name["outer"]["end_ns"] - by_name["outer"]["start_ns"] == pytest.approx(outer.time_s * 1e9)
    assert outer.energy_j is not None
    assert outer.energy_j > so_far.energy_j
    assert outer.source == "counter"
    assert "simulated" in outer.flags


def test_the_power_file_holds_the_energy(fake: str, tmp_path: Path) -> None:
    out = tmp_path / "trial"
    with Meter(out=out, devices=[fake]) as meter, meter.window("w"):
        time.sleep(0.8)
    head, *rows = (out / "power.csv").read_text().splitlines()
    assert head == "# joulelab power schema=1"
    table = list(csv.DictReader(rows))
    assert len(table) >= 6
    assert all(float(row["power_w"]) == pytest.approx(400.0, abs=40.0) for row in table)
    times = [int(row["time_ns"]) for row in table]
    assert min(b - a for a, b in itertools.pairwise(times)) >= 0.0999 * S


def test_without_a_folder_no_file_is_written(
    fake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    with Meter(devices=[fake]) as meter:
        runtime = Path(next(iter(meter.environment().values())))
        with meter.window("kept") as kept:
            time.sleep(0.02)
        for _ in range(50):
            with meter.window("let go"):
                pass
    assert set(tmp_path.iterdir()) == before
    assert not runtime.exists()
    # Figures that nobody had read were fetched when the meter closed.
    assert kept.energy_j is not None


def test_idle_and_between(fake: str) -> None:
    with Meter(devices=[fake]) as meter:
        idle = meter.idle(0.3)
        assert idle.power_w == pytest.approx(400.0, rel=0.15)
        now_ns = time.monotonic_ns()
        span = meter.between(now_ns - 2 * S // 10, now_ns)
        assert span.time_s == pytest.approx(0.2)
        assert span.energy_j == pytest.approx(80.0, abs=float(span.energy_error_j or 0))
        old = meter.between(now_ns - 3600 * S, now_ns)
        assert old.energy_j is None
        assert "before the meter began" in old.flags[0]
        with pytest.raises(InputError, match="before it starts"):
            meter.between(5, 4)


def test_parts_are_not_summed_and_a_lost_card_is_named(tmp_path: Path) -> None:
    steady = {"shape": "constant", "load": {"power_w": 100.0}}
    devices = [
        fakes(tmp_path, {**steady, "uid": "gpu:good"}, {**steady, "uid": "gpu:bad", "lost_after_s": 0.4})
    ]
    with Meter(devices=devices) as meter:
        with meter.window("w") as window:
            time.sleep(0.6)
        assert list(window.energy_j_by_device) == ["gpu:good-0"]
        assert window.power_w == pytest.approx(100.0, rel=0.1)
        assert any("lost: gpu:bad" in flag for flag in window.flags)


def test_a_misspelt_device_is_refused() -> None:
    with pytest.raises(InputError, match="fake"):
        Meter(devices=["fakke"]).open()
    with pytest.raises(InputError, match="is text"):
        Meter(devices="fake")


def test_a_device_that_is_not_there_is_refused_when_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(
        "class Broken:\n"
        "    @classmethod\n"
        "    def find(cls, argument=''):\n"
        "        raise OSError('no driver')\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with pytest.raises(SensorError, match="no driver"):
        Meter(devices=["broken:Broken"]).open()


def test_a_folder_that_cannot_be_written_is_refused_before_anything_runs(fake: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="a part of that path is a file"):
        Meter(out=tmp_path / "file" / "trial", devices=[fake]).open()
    if os.getuid() == 0:
        return
    (tmp_path / "shut").mkdir(mode=0o500)
    with pytest.raises(RecordError, match="no permission"):
        Meter(out=tmp_path / "shut", devices=[fake]).open()


def test_a_sampler_that_dies_costs_the_energy_and_nothing_else(fake: str) -> None:
    with Meter(devices=[fake]) as meter:
        pid = meter.open().pid
        with meter.window("w") as window:
            os.kill(pid, signal.SIGKILL)
            assert gone(pid)
        assert window.energy_j is None
        assert window.time_s > 0
        assert "sampler" in window.flags[0]
        with meter.window("again"):
            pass


def test_a_sampler_that_does_not_start_is_said_once(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    meter = Meter()
    for _ in range(3):
        with meter.window("w") as window:
            pass
    assert window.energy_j is None
    assert capfd.readouterr().err.count("no energy is measured") == 1
    meter.close()


def test_windows_are_cheap(fake: str) -> None:
    with Meter(devices=[fake]) as meter:
        best = min(_cost_s(meter) for _ in range(10))
    assert best < 20e-6


def _cost_s(meter: Meter) -> float:
    """Of the thread's own time: what other processes do on a busy machine is not the window's."""
    began = time.thread_time()
    for _ in range(1000):
        with meter.window("w"):
            pass
    return (time.thread_time() - began) / 1000


CHILD = """
import sys, time
from joulelab.meter.meter import Meter
out, device = sys.argv[1:3]
meter = Meter(out=out or None, devices=[device] if device else [])
meter.open()
with meter.window("ended"):
    time.sleep(0.02)
w = meter.window("open")
w.__enter__()
print(meter.link.pid, flush=True)
exec(sys.argv[3])
"""


def child(fake: str, out: Path | str, code: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(out), fake, code],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_kill_9_loses_no_window_that_had_ended(fake: str, tmp_path: Path) -> None:
    with child(fake, tmp_path / "trial", "time.sleep(60)") as process:
        assert process.stdout is not None
        sampler = int(process.stdout.readline())
        time.sleep(0.05)
        process.kill()
    assert gone(sampler)
    by_name = {line["name"]: line for line in lines(tmp_path / "trial" / "windows.jsonl")[1:]}
    assert by_name["ended"]["energy_j"] > 0
    assert "interrupted" in by_name["open"]["flags"]
    assert by_name["open"]["time_s"] >= 0.05


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_to_the_group_end_the_training_first(
    fake: str, tmp_path: Path, number: signal.Signals
) -> None:
    code = (
        f"import signal; signal.signal({int(number)}, lambda *_: print('caught', flush=True))\n"
        "print('on', flush=True); time.sleep(0.4)"
    )
    with child(fake, tmp_path / "trial", code) as process:
        assert process.stdout is not None
        sampler = int(process.stdout.readline())
        assert process.stdout.readline() == "on\n"
        os.killpg(process.pid, number)
        os.kill(sampler, number)
        assert process.stdout.readline() == "caught\n"
        assert alive(sampler)
    assert gone(sampler)
    assert len(windows_of(tmp_path / "trial" / "windows.jsonl")) == 2


def test_a_child_joins_and_is_counted_once(fake: str, tmp_path: Path) -> None:
    out = tmp_path / "trial"
    with Meter(out=out, devices=[fake]) as meter:
        own = meter.open().pid
        with (
            meter.window("parent"),
            child("", "", "w.__exit__(None, None, None); meter.close()", **meter.environment()) as process,
        ):
            assert process.stdout is not None
            assert int(process.stdout.readline()) == own
        assert process.returncode == 0
        assert alive(own)
    names = [line["name"] for line in windows_of(out / "windows.jsonl")]
    assert sorted(names) == ["ended", "open", "parent"]
    heads = [line for line in lines(out / "windows.jsonl") if line.get("kind") == "windows"]
    assert len(heads) == 1


def test_who_asks_for_another_record_gets_a_sampler_of_its_own(fake: str, tmp_path: Path) -> None:
    with Meter(devices=[fake]) as meter:
        code = "w.__exit__(None, None, None); meter.close()"
        with child(fake, tmp_path / "other", code, **meter.environment()) as process:
            assert process.stdout is not None
            assert int(process.stdout.readline()) != meter.open().pid
    assert len(windows_of(tmp_path / "other" / "windows.jsonl")) == 2


def test_ranks_of_one_job_share_a_sampler(fake: str, tmp_path: Path) -> None:
    out = tmp_path / "trial"
    job = {
        "TORCHELASTIC_RUN_ID": "none",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(20_000 + os.getpid() % 10_000),
    }
    code = "w.__exit__(None, None, None); time.sleep(0.3); meter.close()"
    ranks = [child(fake, out, code, RANK=str(rank), **job) for rank in range(4)]
    samplers = set()
    for process in ranks:
        with process:
            assert process.stdout is not None
            samplers.add(int(process.stdout.readline()))
        assert process.returncode == 0
    assert len(samplers) == 1
    assert gone(samplers.pop())
    heads = [line for line in lines(out / "windows.jsonl") if line.get("kind") == "windows"]
    windows = windows_of(out / "windows.jsonl")
    assert len(heads) == 1
    assert sorted(window["rank"] for window in windows) == [0, 0, 1, 1, 2, 2, 3, 3]
    # One card, one curve: every rank sees the same 400 W and not a share or a multiple of them.
    assert all(
        window["power_w"] == pytest.approx(400.0, rel=0.05) for window in windows if window["time_s"] > 0.01
    )


def test_after_a_fork_the_child_measures_for_itself(fake: str, tmp_path: Path) -> None:
    out = tmp_path / "trial"
    code = """
import os
pid = os.fork()
if not pid:
    w.__exit__(None, None, None)  # the parent's window: not the child's to end
    with meter.window("of the child"): time.sleep(0.02)
    meter.close()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
w.__exit__(None, None, None)
meter.close()
"""
    with child(fake, out, code) as process:
        assert process.stdout is not None
        sampler = int(process.stdout.readline())
    assert process.returncode == 0
    assert gone(sampler)
    by_name = {line["name"]: line for line in windows_of(out / "windows.jsonl")}
    assert sorted(by_name) == ["ended", "of the child", "open"]
    assert by_name["of the child"]["pid"] != by_name["open"]["pid"]
    assert by_name["open"]["flags"] == ["simulated"] or "short" in by_name["open"]["flags"][-1]


def test_another_program_in_the_same_process_ends_the_windows_and_may_be_measured(
    fake: str, tmp_path: Path
) -> None:
    out = tmp_path / "trial"
    again = (
        "from joulelab.meter.meter import Meter\n"
        "with Meter() as meter, meter.window('of the other program'): pass\n"
    )
    code = (
        "import os\n"
        "os.environ.update(meter.environment())\n"
        f"os.execv(sys.executable, [sys.executable, '-c', {again!r}])"
    )
    with child(fake, out, code) as process:
        assert process.stdout is not None
        sampler = int(process.stdout.readline())
    assert process.returncode == 0
    assert gone(sampler)
    by_name = {line["name"]: line for line in windows_of(out / "windows.jsonl")}
    assert sorted(by_name) == ["ended", "of the other program", "open"]
    assert "interrupted" in by_name["open"]["flags"]
    assert by_name["open"]["end_ns"] <= by_name["of the other program"]["start_ns"]
