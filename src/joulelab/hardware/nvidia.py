# SPDX-License-Identifier: Apache-2.0
"""NVIDIA boards through NVML: energy counter, the driver's sample buffer, averaged power, cap.

No figure is made of the instantaneous power field (186), only a calibration reads it: it sees a slice of
each 100 ms, and under a periodic load, which training is, its integral was 60 % too low on an H200.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from joulelab.errors import SensorError
from joulelab.hardware.device import Device, Found, Limits, Problem, Sample, Traits
from joulelab.hardware.nvidia_visible import Board, Choice, select
from joulelab.hardware.nvml import (
    CURES,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    POWER_AVERAGE,
    SCOPE_BOARD,
    SCOPE_MEMORY,
    SCOPE_MODULE,
    UNION,
    Nvml,
    NvmlError,
    problem_of,
)

TOTAL_POWER_SAMPLES = 0
POWER_INSTANT = 186
MIN_LIMIT, MAX_LIMIT, DEFAULT_LIMIT, CURRENT_LIMIT = 187, 188, 189, 190
VOLTA, AMPERE, UNKNOWN_ARCH = 5, 7, 0xFFFFFFFF

# Measured on an H200, driver 580: how the buffer's samples relate to the power. Used for every board,
# since nothing is published; the spacing and depth are looked up on the board itself.
BUFFER_PERIOD_S, BUFFER_WINDOW_S, BUFFER_LAG_S, BUFFER_DEPTH_S = 0.02, 0.04, 0.015, 2.4

# NTP slews the wall clock by less than 1 ms between two reads; what moves it by more has set it.
STEP_NS = 20_000_000


class Nvidia(Device):
    """One board. A MIG slice is shown as its board, since NVML has no power of a slice."""

    kind = "gpu"

    def __init__(self, handle: Any, *, nvml: Nvml, is_slice: bool = False) -> None:
        self._handle = handle
        self._nvml = nvml
        self.uuid = str(nvml.call("nvmlDeviceGetUUID", handle))
        self.uid = f"gpu:{self.uuid}"
        self.name = str(nvml.call("nvmlDeviceGetName", handle))
        self.driver = str(nvml.optional("nvmlSystemGetDriverVersion") or "unknown")
        self.scope = "whole card, of which a MIG slice is used" if is_slice else "whole card"
        self.denied: list[str] = []
        self._newest = (0, 0)  # the last sample handed out: driver's stamp in us, and ours in ns
        self._offset_ns: int | None = None  # of the wall clock, at the last look into the buffer
        self._power_scope = SCOPE_BOARD
        has_counter = self._has("energy counter", "nvmlDeviceGetTotalEnergyConsumption", handle)
        buffer = self._probe_buffer()
        self._arch = nvml.optional("nvmlDeviceGetArchitecture", handle)
        power_window_s = self._probe_power(has_counter=has_counter)
        caps = self.limits()
        self.source = "counter" if has_counter else "integrated"
        self.traits = Traits(
            counter_period_s=0.1 if has_counter else None,
            buffer_period_s=buffer[0] if buffer else None,
            buffer_window_s=BUFFER_WINDOW_S if buffer else 0.0,
            buffer_lag_s=BUFFER_LAG_S if buffer else 0.0,
            buffer_depth_s=buffer[1] if buffer else 0.0,
            power_period_s=None if power_window_s is None else (0.02 if self._knows_arch() <= VOLTA else 0.1),
            power_window_s=power_window_s or 0.0,
            power_max_w=caps.max_w if caps else 1000.0,
            gain_error=0.05,
        )

    @classmethod
    def find(cls, argument: str = "") -> Found:
        """`argument` takes the place of CUDA_VISIBLE_DEVICES, with "+" between its entries."""
        try:
            nvml = Nvml()
        except Exception as error:  # noqa: BLE001 - a broken driver or binding raises anything
            return Found(problems=(problem_of(error),))
        try:
            visible = argument.replace("+", ",") if argument else os.environ.get("CUDA_VISIBLE_DEVICES")
            return _look(nvml, visible)
        except SensorError as error:
            return Found(problems=(problem_of(error),))
        finally:
            nvml.close()

    def energy_j(self) -> float:
        return float(self._nvml.call("nvmlDeviceGetTotalEnergyConsumption", self._handle)) / 1e3

    def samples(self, after_ns: int) -> Sequence[Sample]:
        if self.traits.buffer_period_s is None:
            return ()
        # The driver stamps with the wall clock, which NTP slews: the pair of clocks is taken anew each time,
        # and what was already handed out is known by the driver's own stamp, so that no sample comes twice.
        now_ns = time.monotonic_ns()
        offset_ns = time.time_ns() - now_ns
        before_ns, self._offset_ns = self._offset_ns, offset_ns
        if before_ns is not None and abs(offset_ns - before_ns) > STEP_NS:
            # The clock was set: nobody can tell by which clock a sample was stamped. Begin anew.
            self._newest = ((now_ns + offset_ns) // 1000, now_ns)
            return ()
        last_us, last_ns = self._newest
        after_us = last_us if after_ns >= last_ns > 0 else max(0, (after_ns + offset_ns) // 1000)
        found = []
        raw = self._read_buffer(after_us)
        # Where stamps fall, the clock was set back: what stands before that is older and bears later times.
        falls = [i for i in range(1, len(raw)) if raw[i][0] < raw[i - 1][0]]
        for stamp_us, power_w in raw[falls[-1] :] if falls else raw:
            time_ns = stamp_us * 1000 - offset_ns
            if stamp_us > after_us and after_ns < time_ns <= now_ns + STEP_NS:
                found.append(Sample(time_ns, power_w))
                if stamp_us > self._newest[0]:
                    self._newest = (stamp_us, time_ns)
        return found

    def power_w(self) -> float:
        """Mean of the last second where the board has that; else what the board calls its power."""
        if self.traits.power_period_s is None:
            return super().power_w()
        if self._averaged:
            return self._field_w(POWER_AVERAGE)
        return float(self._nvml.call("nvmlDeviceGetPowerUsage", self._handle)) / 1e3

    def memory_power_w(self) -> float | None:
        """Power of the memory alone, contained in the board's; None where the board does not tell."""
        power_mw = self._nvml.field(self._handle, POWER_AVERAGE, scope=SCOPE_MEMORY)
        return power_mw / 1e3 if power_mw else None

    def fields(self) -> dict[str, Callable[[], float]]:
        """The power fields, the instant one included: a calibration shows how far each is off."""
        found: dict[str, Callable[[], float]] = {}
        for name, field in (("averaged field", POWER_AVERAGE), ("instant field", POWER_INSTANT)):
            if self._nvml.field(self._handle, field, scope=self._power_scope) is not None:
                found[name] = partial(self._field_w, field)
        return found

    def environment(self) -> dict[str, str]:
        return {"CUDA_VISIBLE_DEVICES": self.uuid}

    def limits(self) -> Limits | None:
        fields = (CURRENT_LIMIT, DEFAULT_LIMIT, MIN_LIMIT, MAX_LIMIT)
        values = [self._nvml.field(self._handle, field) for field in fields]
        if any(v is None for v in values):
            bounds = self._nvml.optional("nvmlDeviceGetPowerManagementLimitConstraints", self._handle)
            values = [
                self._nvml.optional("nvmlDeviceGetEnforcedPowerLimit", self._handle),
                self._nvml.optional("nvmlDeviceGetPowerManagementDefaultLimit", self._handle),
                *(bounds or (None, None)),
            ]
        watts = [v / 1e3 for v in values if v is not None]
        if len(watts) < len(values):
            return None
        return Limits(now_w=watts[0], default_w=watts[1], min_w=watts[2], max_w=watts[3])

    def close(self) -> None:
        self._nvml.close()

    def _field_w(self, field: int) -> float:
        power_mw = self._nvml.field(self._handle, field, scope=self._power_scope)
        if power_mw is None:
            raise SensorError(f"{self.name} no longer tells its power", cure="look at `nvidia-smi`")
        return power_mw / 1e3

    def _read_buffer(self, after_us: int) -> list[tuple[int, float]]:
        try:
            value_type, samples = self._nvml.call(
                "nvmlDeviceGetSamples", self._handle, TOTAL_POWER_SAMPLES, after_us
            )
        except NvmlError as error:
            if error.code == NOT_FOUND:  # nothing newer
                return []
            raise
        member = UNION[value_type]
        return [(int(s.timeStamp), float(getattr(s.sampleValue, member)) / 1e3) for s in samples]

    def _probe_buffer(self) -> tuple[float, float] | None:
        """Spacing and depth of the sample buffer as it stands; None where there is no buffer."""
        try:
            stamps_s = [stamp_us / 1e6 for stamp_us, _ in self._read_buffer(0)]
        except NvmlError as error:
            self._note("sample buffer", error)
            return None
        if len(stamps_s) < 20:  # just started: too few to tell
            return BUFFER_PERIOD_S, BUFFER_DEPTH_S
        period_s = statistics.median(b - a for a, b in pairwise(stamps_s))
        return max(period_s, 1e-3), stamps_s[-1] - stamps_s[0]

    def _probe_power(self, *, has_counter: bool) -> float | None:
        """Over how many seconds the power is a mean; None where it may not be used at all."""
        for scope in (SCOPE_BOARD, SCOPE_MODULE):
            if self._nvml.field(self._handle, POWER_AVERAGE, scope=scope):
                self._averaged, self._power_scope = True, scope
                if scope == SCOPE_MODULE:  # some Grace-Hopper modules answer for GPU and CPU together only
                    self.scope += "; its power field holds the whole module, CPU included"
                return 1.0
        self._averaged = False
        if not self._has("power", "nvmlDeviceGetPowerUsage", self._handle):
            return None
        capability = self._nvml.optional("nvmlDeviceGetCudaComputeCapability", self._handle)
        if AMPERE <= self._knows_arch() < UNKNOWN_ARCH and capability != (8, 0):
            return 1.0
        # GA100 and older give an instant, which on some of them sees a quarter of the time: good enough only
        # where there is nothing better.
        return None if has_counter else 0.0

    def _knows_arch(self) -> int:
        return UNKNOWN_ARCH if self._arch is None else int(self._arch)

    def _has(self, what: str, function: str, *arguments: Any) -> bool:
        try:
            self._nvml.call(function, *arguments)
        except NvmlError as error:
            self._note(what, error)
            return False
        return True

    def _note(self, what: str, error: NvmlError) -> None:
        """A refusal is worth telling; a chip without the sensor, or a driver without the call, is not."""
        if error.code == NO_PERMISSION:
            self.denied.append(what)
        elif error.code not in {NOT_SUPPORTED, 2, 13}:
            raise error


def _look(nvml: Nvml, visible: str | None) -> Found:
    handles = [nvml.call("nvmlDeviceGetHandleByIndex", i) for i in range(nvml.call("nvmlDeviceGetCount"))]
    if not handles:
        none = Problem(vendor="nvidia", what="the driver knows no GPU", cure="look at `nvidia-smi -L`")
        return Found(problems=(none,))
    choices, stop = select(visible, [board(nvml, i, handle) for i, handle in enumerate(handles)])
    devices: list[Device] = []
    problems = _visibility(nvml, handles, visible=visible, stop=stop, chosen=choices)
    for choice in choices:
        own = Nvml()
        try:
            device = Nvidia(handles[choice.board.index], nvml=own, is_slice=choice.is_slice)
        except SensorError as error:
            own.close()
            problems.append(problem_of(error))
            continue
        if device.denied:
            what = f"{device.name}: no permission to read {', '.join(device.denied)}"
            problems.append(Problem(vendor="nvidia", what=what, cure=CURES[NO_PERMISSION]))
        traits = device.traits
        if traits.counter_period_s or traits.buffer_period_s or traits.power_period_s:
            devices.append(device)
        else:
            device.close()
            what = f"{device.name} ({device.uid}) tells neither energy nor power"
            problems.append(Problem(vendor="nvidia", what=what, cure="see `nvidia-smi -q -d POWER`"))
    return Found(tuple(devices), tuple(problems))


def board(nvml: Nvml, index: int, handle: Any) -> Board:
    mode = nvml.optional("nvmlDeviceGetMigMode", handle)
    slices: list[str] = []
    if mode and mode[0]:
        for i in range(nvml.optional("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
            part = nvml.optional("nvmlDeviceGetMigDeviceHandleByIndex", handle, i)
            if part is not None:
                slices.append(str(nvml.call("nvmlDeviceGetUUID", part)))
    return Board(
        index=index,
        uuid=str(nvml.call("nvmlDeviceGetUUID", handle)),
        mig_uuids=tuple(slices),
        mig_enabled=bool(mode and mode[0]),
    )


def _visibility(
    nvml: Nvml, handles: Sequence[Any], *, visible: str | None, stop: str, chosen: Sequence[Choice]
) -> list[Problem]:
    problems = []
    if stop:
        problems.append(
            Problem(
                vendor="nvidia",
                what=f"CUDA_VISIBLE_DEVICES={visible}: '{stop}' names no GPU; CUDA ignores it and the rest",
                cure="`nvidia-smi -L` lists indices, UUIDs and MIG names",
            )
        )
    if not chosen:
        what = f"CUDA_VISIBLE_DEVICES='{visible}' hides all {len(handles)} GPUs: none is measured"
        problems.append(
            Problem(vendor="nvidia", what=what, cure="unset CUDA_VISIBLE_DEVICES if a GPU is used")
        )
    by_index = visible is not None and any(c.isdigit() for c in visible.split("GPU-")[0].split("MIG-")[0])
    if by_index and chosen and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        names = {nvml.call("nvmlDeviceGetName", h) for h in handles}
        if len(names) > 1:
            # NVML counts along the PCI bus; CUDA, unless told otherwise, puts the fastest card first.
            problems.append(
                Problem(
                    vendor="nvidia",
                    what="several models and no CUDA_DEVICE_ORDER: CUDA's index N may be another card",
                    cure="export CUDA_DEVICE_ORDER=PCI_BUS_ID",
                )
            )
    return problems
