# SPDX-License-Identifier: Apache-2.0
"""The NVIDIA device through NVIDIA's own binding, on a stand-in for the driver's library."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from joulelab.errors import SensorError
from joulelab.hardware.device import Found, Limits, Sample
from joulelab.hardware.nvidia import Nvidia
from tests.fakes.nvml import HIGH_W, LOW_W, MEAN_W, FakeNvml

UUIDS = [f"GPU-000000b{i}-1111-2222-3333-444444444444" for i in range(4)]


@contextmanager
def look(argument: str = "") -> Iterator[Found]:
    found = Nvidia.find(argument)
    try:
        yield found
    finally:
        for device in found.devices:
            device.close()


@contextmanager
def board() -> Iterator[Nvidia]:
    with look("0") as found:
        (device,) = found.devices
        assert isinstance(device, Nvidia)
        yield device


def test_what_a_board_says_of_itself(nvml: FakeNvml) -> None:
    with look() as found:
        assert [d.uid for d in found.devices] == [f"gpu:{u}" for u in UUIDS[:2]]
        assert not found.problems
        device = found.devices[0]
        assert isinstance(device, Nvidia)
        assert (device.name, device.kind, device.source) == ("Fake H200", "gpu", "counter")
        assert device.driver == "999.01"
        assert device.limits() == Limits(now_w=500.0, default_w=700.0, min_w=200.0, max_w=700.0)
        traits = device.traits
        assert (traits.counter_period_s, traits.power_period_s, traits.power_window_s) == (0.1, 0.1, 1.0)
        assert traits.buffer_period_s == pytest.approx(0.02, abs=1e-4)
        assert traits.buffer_depth_s == pytest.approx(2.4, abs=0.05)
        assert traits.power_max_w == 700.0


def test_units(nvml: FakeNvml) -> None:
    nvml.set(high_w=300, low_w=300)
    with board() as device:
        first = device.energy()
        time.sleep(0.25)
        last = device.energy()
        span_s = (last.time_ns - first.time_ns) / 1e9
        assert last.energy_j - first.energy_j == pytest.approx(300.0 * span_s, abs=30.1)
        assert device.power_w() == 300.0
        assert {round(s.power_w, 2) for s in device.samples(0)} <= {300.0, 299.999, 300.001}


def test_a_counter_beyond_32_bits(nvml: FakeNvml) -> None:
    nvml.set(base_mj=5e12)
    with board() as device:
        assert device.energy_j() > 5e9


def test_samples_are_placed_on_the_monotonic_clock(nvml: FakeNvml) -> None:
    # Steps of 500 ms: where the power rises tells where a sample's time stamp lies.
    nvml.set(high_s=0.5, low_s=0.5)
    with board() as device:
        samples = device.samples(0)
    assert len(samples) > 110
    half_w = (HIGH_W + LOW_W) / 2
    rises = [b.time_ns for a, b in pairwise(samples) if a.power_w < half_w <= b.power_w]
    assert len(rises) >= 2
    for rise_ns in rises:
        # The wave rises at whole seconds; a sample is late by 15 ms, and comes up to 20 ms after that.
        off_s = (rise_ns / 1e9 + 0.5) % 1.0 - 0.5
        assert 0.010 <= off_s <= 0.040


def test_no_sample_comes_twice(nvml: FakeNvml) -> None:
    with board() as device:
        seen = list(device.samples(time.monotonic_ns() - 10**9))
        for _ in range(10):
            time.sleep(0.03)
            seen += device.samples(seen[-1].time_ns)
        assert device.samples(time.monotonic_ns() + 10**9) == []
    gaps_s = [(b.time_ns - a.time_ns) / 1e9 for a, b in pairwise(seen)]
    assert [g for g in gaps_s if not 0.018 < g < 0.022] == [], "none twice, none left out"


def test_a_board_without_counter_is_integrated(nvml: FakeNvml) -> None:
    nvml.set(has_counter=0)
    with board() as device:
        assert device.source == "integrated"
        assert device.traits.counter_period_s is None
        with pytest.raises(SensorError, match="Not Supported"):
            device.energy_j()
        assert device.power_w() == pytest.approx(MEAN_W, abs=0.01)


def test_a_board_without_buffer(nvml: FakeNvml) -> None:
    nvml.set(has_samples=0)
    with board() as device:
        assert device.traits.buffer_period_s is None
        assert device.samples(0) == ()


@pytest.mark.parametrize(
    ("arch", "capability", "has_counter", "window_s"),
    [
        (9, (9, 0), 1, 1.0),  # Hopper with an old driver: no field 185, its power is the mean of a second
        (7, (8, 6), 1, 1.0),
        (
            7,
            (8, 0),
            1,
            None,
        ),  # GA100: an instant that sees a quarter of the time, beside a counter that sees all
        (5, (7, 0), 1, None),
        (4, (6, 0), 0, 0.0),  # Pascal: the instant is all there is
    ],
)
def test_power_without_the_averaged_field(
    nvml: FakeNvml, arch: int, capability: tuple[int, int], has_counter: int, window_s: float | None
) -> None:
    nvml.set(
        has_average=0, arch=arch, cc_major=capability[0], cc_minor=capability[1], has_counter=has_counter
    )
    with board() as device:
        traits = device.traits
        if window_s is None:
            assert traits.power_period_s is None
            with pytest.raises(SensorError, match="no power reading"):
                device.power_w()
        else:
            assert traits.power_period_s == (0.02 if arch <= 5 else 0.1)
            assert traits.power_window_s == window_s
            assert LOW_W - 0.01 <= device.power_w() <= HIGH_W, "the instant field would say a million"


def test_a_module_that_answers_for_all_of_itself_only(nvml: FakeNvml) -> None:
    nvml.set(board_scope=0)
    with board() as device:
        assert device.power_w() == pytest.approx(MEAN_W + 100.0, abs=0.01)
        assert "whole module, CPU included" in device.scope


def test_memory_power(nvml: FakeNvml) -> None:
    with board() as device:
        assert device.memory_power_w() == 39.0
    nvml.set(has_memory=0)
    with board() as device:
        assert device.memory_power_w() is None


def test_limits_of_a_driver_without_the_fields(nvml: FakeNvml) -> None:
    nvml.set(has_limits=0, now_w=450)
    with board() as device:
        assert device.limits() == Limits(now_w=450.0, default_w=700.0, min_w=200.0, max_w=700.0)


def test_no_permission_is_a_problem(nvml: FakeNvml) -> None:
    nvml.set(no_permission=1)
    with look() as found:
        assert not found.devices
        assert any("no permission to read energy counter" in p.what for p in found.problems)
        assert all("/dev/nvidia" in p.cure or "nvidia-smi" in p.cure for p in found.problems)


def test_a_board_lost_while_it_runs(nvml: FakeNvml) -> None:
    nvml.set(lost_after_s=0.1)
    with board() as device:
        device.energy_j()
        time.sleep(0.12)
        for read in (device.energy_j, device.power_w, lambda: device.samples(0)):
            with pytest.raises(SensorError, match="GPU is lost"):
                read()


def test_no_board(nvml: FakeNvml) -> None:
    nvml.set(gpus=0)
    with look() as found:
        assert not found.devices
        assert "knows no GPU" in found.problems[0].what


def test_visible_devices(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.set(gpus=4)
    for visible, wanted in (("2,0", [2, 0]), (UUIDS[3], [3]), ("1,-1,2", [1]), ("GPU-000000b3", [3])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        with look() as found:
            assert [d.uid for d in found.devices] == [f"gpu:{UUIDS[i]}" for i in wanted]
            assert not found.problems
    with look(f"3+{UUIDS[1]}") as found:
        assert [d.uid for d in found.devices] == [f"gpu:{UUIDS[3]}", f"gpu:{UUIDS[1]}"], (
            "an argument goes first"
        )


def test_visible_devices_that_hide_or_miss(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with look() as found:
        assert not found.devices
        assert "hides all 2 GPUs" in found.problems[0].what
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,5")
    with look() as found:
        assert len(found.devices) == 1
        assert "'5' names no GPU" in found.problems[0].what


def test_cards_of_several_models_and_the_order_of_cuda(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.set(mixed=1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with look() as found:
        assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in found.problems[0].cure
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    with look() as found:
        assert not found.problems


def test_a_mig_slice_shows_its_whole_card_once(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.set(mig=3)
    names = ",".join(f"MIG-000000a1-0000-0000-0000-{i:012d}" for i in (1, 2))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", names)
    with look() as found:
        (device,) = found.devices
        assert device.uid == f"gpu:{UUIDS[1]}"
        assert device.scope == "whole card, of which a MIG slice is used"


@pytest.mark.parametrize("step_s", [5.0, 1.0, -1.0, -5.0])
def test_samples_keep_their_place_when_the_wall_clock_is_set(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    """The driver stamps with the wall clock; a time server may set it by seconds."""
    clock = FakeClock(step_s=step_s)
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock.now_ns)
    monkeypatch.setattr(time, "time_ns", lambda: clock.wall_ns(clock.now_ns))
    with board() as device:
        monkeypatch.setattr(device, "_read_buffer", clock.buffer)
        got: list[Sample] = []
        after_ns = 0
        for _ in range(100):
            clock.now_ns += 100_000_000
            new = device.samples(after_ns)
            got += new
            after_ns = new[-1].time_ns if new else after_ns
    # The power of each sample says when it was taken.
    assert all(abs(sample.time_ns - sample.power_w * 1e6) < 1e6 for sample in got)
    assert all(b.time_ns > a.time_ns for a, b in pairwise(got))
    assert len(got) > 0.9 * 500


class FakeClock:
    """A wall clock that is set after five seconds, and a buffer stamped by it: power is the time in ms."""

    def __init__(self, *, step_s: float) -> None:
        self.now_ns = 100_000_000_000
        self.step_ns = round(step_s * 1e9)

    def wall_ns(self, time_ns: int) -> int:
        return 1_700_000_000_000_000_000 + time_ns + (self.step_ns if time_ns > 105_010_000_000 else 0)

    def buffer(self, after_us: int) -> list[tuple[int, float]]:
        first = (self.now_ns - 2_400_000_000) // 20_000_000
        stamps = [k * 20_000_000 for k in range(first, self.now_ns // 20_000_000 + 1)]
        found = [(self.wall_ns(t) // 1000, t / 1e6) for t in stamps]
        return [sample for sample in found if sample[0] > after_us]
