# SPDX-License-Identifier: Apache-2.0
"""The estimate against busy processes whose CPU time is known."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from joulelab.hardware.estimate import Estimate

BURN = "import time\nwhile time.process_time() < {s}: pass"
GRANDCHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN.format(s=0.5)!r}])"
# Two at once, one of which nobody waits for until it has ended.
TWO = (
    "import subprocess, sys\n"
    f"a, b = (subprocess.Popen([sys.executable, '-c', {BURN.format(s=0.3)!r}]) for _ in range(2))\n"
    "a.wait(); b.wait()"
)


def used_s() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def burn_here() -> None:
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass


def run(code: str) -> Callable[[], None]:
    def work() -> None:
        subprocess.run([sys.executable, "-c", code], check=True)

    return work


@pytest.mark.parametrize(
    "work",
    [burn_here, run(BURN.format(s=0.5)), run(GRANDCHILD), run(TWO)],
    ids=["own", "child", "grandchild", "two"],
)
@pytest.mark.parametrize("is_read_meanwhile", [False, True])
def test_cpu_time_within_five_percent(work: Callable[[], None], *, is_read_meanwhile: bool) -> None:
    import threading

    device = Estimate(model="Xeon Gold 6148")
    stop = threading.Event()
    values: list[float] = []

    def read() -> None:
        while not stop.wait(0.02):
            values.append(device.energy_j())

    reader = threading.Thread(target=read)
    first_j, first_s = device.energy_j(), used_s()
    if is_read_meanwhile:
        reader.start()
    work()
    stop.set()
    if is_read_meanwhile:
        reader.join()
    last_s, last_j = used_s(), device.energy_j()
    cpu_j = last_j - first_j - device.ram_j
    assert cpu_j / (150 / 40) == pytest.approx(last_s - first_s, rel=0.05)
    assert values == sorted(values), "it only increases"


def test_a_child_is_seen_while_it_runs() -> None:
    device = Estimate(model="Xeon Gold 6148")
    with subprocess.Popen([sys.executable, "-c", BURN.format(s=0.3)]) as child:
        device.watch((child.pid,))
        before_j = device.energy_j()
        burn_here()  # not watched
        child.wait()
        # It has ended, nobody watched has its time, and its last seconds were between two reads.
        gained_s = (device.energy_j() - before_j - device.ram_j) / (150 / 40)
        assert gained_s <= 0.32


def test_a_watch_of_others_goes_on_from_the_same_figure() -> None:
    device = Estimate()
    burn_here()
    before_j = device.energy_j()
    device.watch((1,))
    # What process 1 has used in all its life must not appear.
    assert 0.0 <= device.energy_j() - before_j < 1.0
    device.watch((os.getpid(),))
    assert 0.0 <= device.energy_j() - before_j < 2.0


def test_memory_is_counted_over_time() -> None:
    now_s = 100.0
    device = Estimate(model="Xeon Gold 6148", clock=lambda: now_s)
    ballast = bytearray(300 * 2**20)
    ballast[::4096] = b"x" * len(ballast[::4096])  # only touched pages are resident
    now_s += 1.0
    device.energy_j()  # takes the memory in
    held_j = device.ram_j
    now_s += 1000.0
    device.energy_j()
    gib = (device.ram_j - held_j) / 1000.0 / 0.375
    assert 0.3 <= gib <= 4.0
    rss_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert gib <= 1.1 * rss_kib / 2**20
    del ballast


def test_it_says_that_it_is_an_estimate() -> None:
    known, unknown = Estimate(model="AMD EPYC 7742"), Estimate(model="AMD EPYC")
    assert known.source == unknown.source == "estimated"
    assert "1.76 W a thread (rated)" in known.scope
    assert "4 W a thread (assumed" in unknown.scope
    assert known.traits.gain_error == 0.5
    assert "AMD EPYC 7742" in known.name
    (by_argument,) = Estimate.find("AMD EPYC 7742").devices
    assert by_argument.scope == known.scope


def test_a_read_is_cheap() -> None:
    device = Estimate()
    took_s = []
    for _ in range(200):
        before_ns = time.perf_counter_ns()
        device.energy_j()
        took_s.append((time.perf_counter_ns() - before_ns) / 1e9)
    assert sorted(took_s)[100] < 0.001
