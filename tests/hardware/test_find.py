# SPDX-License-Identifier: Apache-2.0
"""Searching never fails; naming does, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from joulelab import hardware
from joulelab.errors import InputError, SensorError
from joulelab.hardware.device import Device, Found, Problem, Traits
from joulelab.hardware.find import devices, find


class Good(Device):
    uid = "gpu:good"
    kind = "gpu"
    traits = Traits(counter_period_s=0.1)
    closed = 0

    @classmethod
    def find(cls, argument: str = "") -> Found:
        made = cls()
        made.name = f"argument '{argument}'"
        return Found((made,))

    def close(self) -> None:
        type(self).closed += 1


class Raises:
    @classmethod
    def find(cls, argument: str = "") -> Found:
        del argument
        raise ZeroDivisionError("the vendor's library fell over")


class Nothing:
    @classmethod
    def find(cls, argument: str = "") -> Found:
        del argument
        return Found(problems=(Problem(vendor="nothing", what="there is nothing", cure="buy one"),))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine whose vendors are those of this file."""
    monkeypatch.delenv("JOULELAB_DEVICES", raising=False)
    for name in ("nvidia", "rapl"):
        monkeypatch.setitem(hardware.DEVICES, name, f"{__name__}:Nothing")
    return monkeypatch


def test_no_sensor_gives_an_estimate_and_says_so(machine: pytest.MonkeyPatch) -> None:
    found = find()
    assert [d.source for d in found.devices] == ["estimated"]
    assert [p.vendor for p in found.problems] == ["nothing", "nothing", "estimate"]
    assert "every figure is an estimate" in found.problems[-1].what


def test_a_sensor_keeps_the_estimate_out(machine: pytest.MonkeyPatch) -> None:
    machine.setitem(hardware.DEVICES, "rapl", f"{__name__}:Good")
    found = find()
    assert [d.uid for d in found.devices] == ["gpu:good"]
    assert [p.vendor for p in found.problems] == ["nothing"]
    assert [d.uid for d in devices()] == ["gpu:good"]


def test_a_vendor_that_falls_over_is_a_problem(machine: pytest.MonkeyPatch) -> None:
    machine.setitem(hardware.DEVICES, "nvidia", f"{__name__}:Raises")
    machine.setitem(hardware.DEVICES, "rapl", "no.such.module:Class")
    found = find()
    assert [p.vendor for p in found.problems] == ["nvidia", "rapl", "estimate"]
    assert "the vendor's library fell over" in found.problems[0].what


def test_the_same_vendor_by_name_is_an_error(machine: pytest.MonkeyPatch) -> None:
    machine.setitem(hardware.DEVICES, "nvidia", f"{__name__}:Raises")
    with pytest.raises(SensorError, match="the vendor's library fell over"):
        find(["nvidia"])
    with pytest.raises(SensorError, match=r"there is nothing\n  cure: buy one"):
        find(["rapl"])


def test_the_environment_names_devices(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine.setenv("JOULELAB_DEVICES", f" {__name__}:Good:x , fake,")
    found = find()
    assert [d.uid for d in found.devices] == ["gpu:good", "gpu:fake-0"]
    assert found.devices[0].name == "argument 'x'"
    assert [d.uid for d in find(["fake"]).devices] == ["gpu:fake-0"], "what is named in the call comes first"


def test_a_plug_in_by_module_and_class(machine: pytest.MonkeyPatch) -> None:
    (device,) = find([f"{__name__}:Good"]).devices
    assert device.name == "argument ''"


def test_one_device_named_twice_counts_once(machine: pytest.MonkeyPatch) -> None:
    closed = Good.closed
    found = find([f"{__name__}:Good", f"{__name__}:Good:again"])
    assert len(found.devices) == 1
    assert Good.closed == closed + 1
    assert "named twice" in found.problems[0].what


@pytest.mark.parametrize("name", ["nvidea", "nvidea:0", "no_such_package.x:Class", ":", "fake_"])
def test_a_misspelt_name_lists_the_legal_ones(machine: pytest.MonkeyPatch, name: str) -> None:
    with pytest.raises(InputError, match="estimate, fake, nvidia, rapl, replay"):
        find([name])


def test_a_plug_in_without_that_class(machine: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="has no 'Missing'"):
        find([f"{__name__}:Missing"])


def test_nothing_is_opened_when_a_later_name_is_wrong(machine: pytest.MonkeyPatch) -> None:
    machine.setitem(hardware.DEVICES, "nvidia", f"{__name__}:Raises")
    with pytest.raises(InputError, match="unknown device"):
        find(["nvidia", "rpal"])


def test_one_name_may_be_given_bare(machine: pytest.MonkeyPatch) -> None:
    assert [d.uid for d in find("fake").devices] == ["gpu:fake-0"]
