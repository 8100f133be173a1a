# SPDX-License-Identifier: Apache-2.0
"""The cap of an NVIDIA board: NVML's power management limit, and `nvidia-smi` by sudo where NVML says no.

What is put back is the limit that users set, not the one in force: a management controller may hold that one
lower, and putting its value back would make it the users' own.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from joulelab.errors import SensorError
from joulelab.hardware.cap import SAME_W, Cap, FoundCaps
from joulelab.hardware.device import Limits, Problem
from joulelab.hardware.nvidia_visible import Board, select
from joulelab.hardware.nvml import NO_PERMISSION, Nvml, NvmlError, problem_of

MIN_LIMIT, MAX_LIMIT, DEFAULT_LIMIT, IN_FORCE = 187, 188, 189, 190
CONTROL = "limit_mw"
SUDO_S = 20.0  # nvidia-smi looks at every board of the node before it does what it is told
ALLOWED = r"ALL=(root) NOPASSWD: {program} ^-i GPU-[0-9a-f-]+ -pl [0-9]+(\.[0-9]+)?$"


class NvidiaCap(Cap):
    """One board. A MIG slice has no cap of its own, so the cap of its board is left alone."""

    kinds = ("gpu",)
    vendor = "nvidia"
    kind = "gpu"

    def __init__(self, handle: Any, *, nvml: Nvml, is_slice: bool = False) -> None:
        self._handle = handle
        self._nvml = nvml
        self._is_slice = is_slice
        self.uuid = str(nvml.call("nvmlDeviceGetUUID", handle))
        self.argument = self.uuid
        self.uid = f"gpu:{self.uuid}"
        self.name = str(nvml.call("nvmlDeviceGetName", handle))

    @classmethod
    def find(cls, argument: str = "") -> FoundCaps:
        """`argument` takes the place of CUDA_VISIBLE_DEVICES, with "+" between its entries."""
        try:
            nvml = Nvml()
        except Exception as error:  # noqa: BLE001 - a broken driver or binding raises anything
            return FoundCaps(problems=(problem_of(error),))
        try:
            visible = argument.replace("+", ",") if argument else os.environ.get("CUDA_VISIBLE_DEVICES")
            return cls._visible(nvml, visible)
        except SensorError as error:
            return FoundCaps(problems=(problem_of(error),))
        finally:
            nvml.close()

    @classmethod
    def _visible(cls, nvml: Nvml, visible: str | None) -> FoundCaps:
        count = nvml.call("nvmlDeviceGetCount")
        handles = [nvml.call("nvmlDeviceGetHandleByIndex", i) for i in range(count)]
        boards = [_board(nvml, i, handle) for i, handle in enumerate(handles)]
        choices, _ = select(visible, boards)
        caps: list[Cap] = []
        for choice in choices:
            own = Nvml()  # NVML counts its users, so each cap may be closed by itself
            try:
                caps.append(cls(handles[choice.board.index], nvml=own, is_slice=choice.is_slice))
            except SensorError:
                own.close()
                raise
        if caps:
            return FoundCaps(tuple(caps))
        what = f"none of {count} GPUs is visible (CUDA_VISIBLE_DEVICES = {visible!r})"
        return FoundCaps(problems=(Problem(vendor="nvidia", what=what, cure="look at `nvidia-smi -L`"),))

    def limits(self) -> Limits:
        bounds = self._nvml.optional("nvmlDeviceGetPowerManagementLimitConstraints", self._handle)
        lowest_mw, highest_mw = bounds or (self._field(MIN_LIMIT), self._field(MAX_LIMIT))
        default_mw = self._field(DEFAULT_LIMIT) or self._nvml.optional(
            "nvmlDeviceGetPowerManagementDefaultLimit", self._handle
        )
        now_mw = self._field(IN_FORCE) or self._nvml.optional("nvmlDeviceGetEnforcedPowerLimit", self._handle)
        if not highest_mw or not now_mw:
            raise SensorError(
                f"{self.name} has no power cap, or does not tell it", cure="see `nvidia-smi -q`"
            )
        return Limits(
            now_w=now_mw / 1e3,
            default_w=(default_mw or 0) / 1e3,
            min_w=(lowest_mw or 0) / 1e3,
            max_w=highest_mw / 1e3,
        )

    def controls(self) -> dict[str, int]:
        return {CONTROL: int(self._nvml.call("nvmlDeviceGetPowerManagementLimit", self._handle))}

    def wanted(self, power_w: float) -> dict[str, int]:
        return {CONTROL: round(power_w * 1e3)}

    def write(self, control: str, value: int) -> None:
        del control
        try:
            # The wrapper of the newer call, ..._v2, throws the driver's refusal away and reports success.
            self._nvml.call("nvmlDeviceSetPowerManagementLimit", self._handle, value)
        except NvmlError as error:
            if error.code != NO_PERMISSION:
                raise SensorError(
                    f"{self.name} ({self.uid}): {value / 1e3:g} W was refused: {error.message}",
                    cure="see `nvidia-smi -q -d POWER`; a virtual GPU has no cap of its own",
                ) from error
            self._by_sudo(value / 1e3)

    def same(self, control: str, one: int, other: int) -> bool:
        return abs(one - other) <= SAME_W * 1e3

    def why_not(self) -> str:
        if self._is_slice:
            whose = f"{self.name} ({self.uid})"
            return f"{whose} is divided by MIG: its one cap would hold for the slices of others too"
        return ""

    def notes(self) -> tuple[str, ...]:
        if self._nvml.optional("nvmlDeviceGetPersistenceMode", self._handle) != 0:
            return ()
        return (
            "persistence mode is off: the driver forgets a cap when its last user leaves; "
            f"sudo nvidia-smi -i {self.uuid} -pm 1",
        )

    def close(self) -> None:
        self._nvml.close()

    def _field(self, field: int) -> float | None:
        return self._nvml.field(self._handle, field)

    def _by_sudo(self, power_w: float) -> None:
        """NVML lets only root set a cap. An administrator may have allowed just this one command."""
        program = shutil.which("nvidia-smi")
        said = "there is no sudo or no nvidia-smi here"
        if program and shutil.which("sudo"):
            # Without a password or not at all: nobody is there to type one.
            command = ["sudo", "-n", program, "-i", self.uuid, "-pl", f"{power_w:.15g}"]
            try:
                done = self._run(command)
            except (OSError, subprocess.TimeoutExpired) as error:
                said = str(error)
            else:
                if done.returncode == 0:
                    return
                said = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
        raise SensorError(
            f"{self.name} ({self.uid}): no permission to set {power_w:g} W (sudo: {said})",
            cure=f"run as root; or an administrator runs `sudo nvidia-smi -i {self.uuid} -pl "
            f"{power_w:g}` around "
            "the run; or adds with visudo (sudo 1.9.10 or newer) the line\n"
            f"  {_user()} {ALLOWED.format(program=program or '/usr/bin/nvidia-smi')}",
        )

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """If this process is killed, the command goes on, and sets the cap after everything was put back.

        So its input is the locked file, one of the three descriptors that sudo leaves open: whoever puts back
        back waits until nobody holds that lock.
        """
        with (self.turn or Path(os.devnull)).open("ab+") as turn:
            if self.turn:
                fcntl.flock(turn, fcntl.LOCK_SH)
            process = subprocess.Popen(
                command, stdin=turn, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        try:
            out, err = process.communicate(timeout=SUDO_S)
        except subprocess.TimeoutExpired:
            with suppress(OSError):  # it runs as root: it cannot be killed from here
                process.kill()
            raise
        except BaseException:
            # Asked to stop. It ends by itself in a moment, and then what it did can be undone.
            process.wait(SUDO_S)
            raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)


def _board(nvml: Nvml, index: int, handle: Any) -> Board:
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


def _user() -> str:
    return os.environ.get("USER") or f"#{os.getuid()}"
