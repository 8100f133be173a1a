# SPDX-License-Identifier: Apache-2.0
"""Back to what was found: not to the default, not over what somebody else has set, and once is enough."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

import pytest

from joulelab.errors import SensorError
from joulelab.hardware.cap import Cap
from joulelab.knobs.lease import Lease, LeaseFolder
from joulelab.knobs.put_back import put_back, repair
from tests.fakes.caps import GPU_FOUND_MW, Machine

if TYPE_CHECKING:
    from pathlib import Path

FOUND = {"long": 180, "short": 215, "window": 7812, "enabled": 0}
ASKED = {"long": 120, "short": 120, "enabled": 1}


class Simple(Cap):
    """Three controls and a log; `long` is rounded by one, as a kernel rounds."""

    uid = "cpu:0"

    def __init__(self, **now: int) -> None:
        self.now = {**FOUND, **now}
        self.log: list[tuple[str, int]] = []
        self.deaf = False

    def controls(self) -> dict[str, int]:
        return dict(self.now)

    def same(self, control: str, one: int, other: int) -> bool:
        return abs(one - other) <= 1

    def write(self, control: str, value: int) -> None:
        self.log.append((control, value))
        if not self.deaf:
            self.now[control] = value


LEASE = Lease(
    vendor="rapl", argument="", uid="cpu:0", name="package-0", asked_w=120.0, found=FOUND, asked=ASKED
)


def test_everything_that_was_moved_goes_back_in_reverse() -> None:
    cap = Simple(**ASKED)
    assert put_back(cap, LEASE) == []
    assert cap.now == FOUND
    assert cap.log == [("enabled", 0), ("short", 215), ("long", 180)]
    assert put_back(cap, LEASE) == []
    assert len(cap.log) == 3, "a second time nothing is written"


def test_half_way_there_and_half_way_back() -> None:
    for now in ({"long": 120}, {"long": 120, "short": 120}, {"short": 120, "enabled": 1}, {}):
        cap = Simple(**now)
        put_back(cap, LEASE)
        assert cap.now == FOUND
        assert len(cap.log) == len(now)


def test_a_window_that_the_kernel_moved_goes_back_too() -> None:
    cap = Simple(**ASKED, window=976)
    put_back(cap, LEASE)
    assert cap.now == FOUND


def test_what_the_device_rounded_is_still_ours() -> None:
    cap = Simple(**{**ASKED, "long": 119})
    assert put_back(cap, LEASE) == []
    assert cap.now["long"] == 180


def test_what_somebody_else_has_set_stays() -> None:
    cap = Simple(**{**ASKED, "long": 150})
    (words,) = put_back(cap, LEASE)
    assert "long is 150, neither 180 as found nor 120 as set: somebody else has set it" in words
    assert cap.now == {**FOUND, "long": 150}


def test_a_device_that_does_not_listen_is_an_error() -> None:
    cap = Simple(**ASKED)
    cap.deaf = True
    with pytest.raises(SensorError, match="after 180 was written"):
        put_back(cap, LEASE)


def left_by_the_dead(machine: Machine, **more: object) -> Lease:
    """A lease of a process that is gone, and its cap on board 1."""
    uuid = "GPU-000000b1-1111-2222-3333-444444444444"
    lease = Lease(
        vendor="nvidia",
        argument=uuid,
        uid=f"gpu:{uuid}",
        name="Fake H200",
        asked_w=300.0,
        found={"limit_mw": GPU_FOUND_MW},
        asked={"limit_mw": 300_000},
    ).by_this_process()
    lease = dataclasses.replace(lease, started="1", **more)  # type: ignore[arg-type]
    LeaseFolder(machine.leases).write(lease)
    machine.config.with_name("nvml.config.setters").write_text("1.0 1 1 300000 0\n", encoding="ascii")
    return lease


def test_the_next_command_puts_back(machine: Machine) -> None:
    left_by_the_dead(machine)
    said: list[str] = []
    folder = LeaseFolder(machine.leases)
    assert repair(folder, say=said.append)
    assert machine.gpu_log() == [(1, 300_000), (1, GPU_FOUND_MW)]
    assert folder.leases() == []
    assert "put back to what process" in said[0]
    assert repair(folder, say=said.append)
    assert len(said) == 1


def test_after_a_restart_there_is_nothing_to_put_back(machine: Machine) -> None:
    left_by_the_dead(machine, boot="of yesterday")
    said: list[str] = []
    assert repair(LeaseFolder(machine.leases), say=said.append)
    assert machine.gpu_log() == [(1, 300_000)]
    assert LeaseFolder(machine.leases).leases() == []
    assert "has started again" in said[0]


def test_a_lease_of_another_machine_is_left(machine: Machine) -> None:
    lease = left_by_the_dead(machine, boot="another", host="another")
    assert repair(LeaseFolder(machine.leases), say=pytest.fail)
    assert LeaseFolder(machine.leases).leases() == [lease]


def test_whoever_lives_is_left_alone(machine: Machine) -> None:
    lease = left_by_the_dead(machine).by_this_process()
    LeaseFolder(machine.leases).write(lease)
    assert repair(LeaseFolder(machine.leases), say=pytest.fail)
    assert LeaseFolder(machine.leases).leases() == [lease]
    assert machine.gpu_log() == [(1, 300_000)]


def test_a_card_that_is_gone_keeps_its_lease(machine: Machine) -> None:
    left_by_the_dead(machine, uid="gpu:GPU-gone", argument="GPU-gone")
    said: list[str] = []
    assert not repair(LeaseFolder(machine.leases), say=said.append)
    assert "gpu:GPU-gone could not be put back" in said[0]
    assert LeaseFolder(machine.leases).leases()


def test_what_another_user_wrote_is_not_carried_out(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_by_the_dead(machine)
    own = os.geteuid()
    monkeypatch.setattr(LeaseFolder, "is_mine", lambda self, uid: own == own + 1)
    said: list[str] = []
    assert not repair(LeaseFolder(machine.leases), say=said.append)
    assert "belongs to another user" in said[0]
    assert machine.gpu_log() == [(1, 300_000)]


def test_a_lease_names_a_vendor_of_the_table_and_nothing_else(machine: Machine) -> None:
    left_by_the_dead(machine, vendor="os:system")
    said: list[str] = []
    assert not repair(LeaseFolder(machine.leases), say=said.append)
    assert "no vendor 'os:system' has caps" in said[0]


def test_a_damaged_lease_is_said(tmp_path: Path) -> None:
    (tmp_path / "gpu-1.json").write_text("{", encoding="utf-8")
    said: list[str] = []
    assert not repair(LeaseFolder(tmp_path), say=said.append)
    assert "nobody can tell from it" in said[0]
