# SPDX-License-Identifier: Apache-2.0
"""Every vendor of the registry is held to the contract. One without a provider here fails."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from joulelab.hardware import DEVICES
from joulelab.hardware.device import Found
from joulelab.records import plugin
from joulelab.testing import DeviceContract
from tests.fakes.powercap import RANGE_UJ, Powercap

Look = Callable[[], Found]


def nvidia(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    request.getfixturevalue("nvml")
    yield ""


def rapl(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Two counters that a thread moves with the clock; one of them wraps four times a second."""
    made = Powercap(tmp_path)
    made.domain("intel-rapl:0", "package-0", limit_w=205.0)
    made.domain("intel-rapl:0:0", "dram", range_uj=10_000_000)
    stop = threading.Event()

    def move() -> None:
        used_uj = time.monotonic_ns() // 1000 * 40
        made.set("intel-rapl:0", used_uj % RANGE_UJ)
        made.set("intel-rapl:0:0", used_uj % 10_000_000)

    def move_on() -> None:
        while not stop.wait(0.001):
            move()

    move()
    thread = threading.Thread(target=move_on)
    thread.start()
    yield str(tmp_path)
    stop.set()
    thread.join()


def estimate(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield ""


def fake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    full = {"buffer_period_s": 0.02, "buffer_jitter_s": 0.01, "power_period_s": 0.1, "power_window_s": 1.0}
    groups = [
        {"count": 2, "shape": "steps", "counter_jitter_s": 0.02, **full},
        {"kind": "cpu", "counter_period_s": 0.001, "counter_range_j": 50.0, "gain": 1.02},
        {"kind": "node", "shape": "spikes", "denied": ["counter"], "power_period_s": 0.01},
    ]
    file = tmp_path / "node.json"
    file.write_text(json.dumps(groups), encoding="utf-8")
    yield str(file)


def replay(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    file = tmp_path / "power.csv"
    file.write_text(
        "time_s,power_w\n" + "".join(f"{i / 10},{100 + i}\n" for i in range(30)), encoding="utf-8"
    )
    yield str(file)


PROVIDERS = {"nvidia": nvidia, "rapl": rapl, "estimate": estimate, "fake": fake, "replay": replay}


class TestEveryVendor(DeviceContract):
    @pytest.fixture(params=sorted(DEVICES))
    def look(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Look]:
        vendor = request.param
        if vendor not in PROVIDERS:
            pytest.fail(f"'{vendor}' has no provider: say above how to make one without its hardware")
        with contextmanager(PROVIDERS[vendor])(request, tmp_path) as argument:
            yield lambda: plugin.load(DEVICES, vendor, what="device").find(argument)

    @pytest.fixture
    def found(self, look: Look) -> Iterator[Found]:
        found = look()
        yield found
        for device in found.devices:
            device.close()
