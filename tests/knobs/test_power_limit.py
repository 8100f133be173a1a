# SPDX-License-Identifier: Apache-2.0
"""The knob of the GPUs: what it accepts, which cards it means, and that "as-is" touches nothing."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from joulelab.errors import InputError, SensorError
from joulelab.knobs.knob import Site
from joulelab.knobs.power_limit import PowerLimit
from tests.fakes.caps import Machine, allow_sudo
from tests.fakes.nvml import FakeNvml

if TYPE_CHECKING:
    from pathlib import Path


def test_watts_and_shares_are_checked_without_a_machine() -> None:
    assert PowerLimit().check(400) == PowerLimit().check("400 W") == "400"
    assert PowerLimit().check("60%") == "60%"
    with pytest.raises(
        InputError, match=r"study.toml:3: power_limit = 'full' is not legal\n.*share of the default"
    ):
        PowerLimit().check("full", where="study.toml:3")


def test_as_is_opens_and_touches_nothing(machine: Machine) -> None:
    (machine.config).unlink()
    knob = PowerLimit()
    assert knob.refused_here("as-is") == ""
    with knob.applied("as-is"):
        assert knob.told() == []
    assert not machine.leases.exists() or not list(machine.leases.iterdir())


def test_a_share_of_the_default(machine: Machine) -> None:
    knob = PowerLimit()
    with knob.applied("60%"):
        assert machine.gpu_log() == [(0, 420_000), (1, 420_000)]
        told = knob.told()
    assert [(row["knob"], row["in_force_w"], row["found_w"]) for row in told] == [
        ("power_limit", 420.0, 500.0)
    ] * 2
    assert machine.gpu_log()[2:] == [(1, 500_000), (0, 500_000)]
    assert machine.cpu_log() == []


def test_only_the_cards_that_the_trial_sees(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with PowerLimit().applied("400"):
        pass
    assert machine.gpu_log() == [(1, 400_000), (1, 500_000)]


def test_the_cards_that_the_trial_names(machine: Machine) -> None:
    knob = PowerLimit()
    knob.site = Site(devices=("rapl", "nvidia:0"))
    with knob.applied("400"):
        pass
    assert machine.gpu_log() == [(0, 400_000), (0, 500_000)]


@pytest.mark.parametrize(
    ("config", "value", "words"),
    [
        ({}, "199", "199 W is out of the range of Fake H200"),
        ({}, "20%", "20%, 140 W, is out of the range"),
        ({"gpus": 0}, "400", "no GPU whose power can be capped was found"),
        ({"mig": 2}, "400", "is divided by MIG"),
        ({"init_error": 9}, "400", "Driver Not Loaded"),
    ],
)
def test_what_this_machine_cannot_is_refused_before_anything_starts(
    machine: Machine, config: dict[str, float], value: str, words: str
) -> None:
    FakeNvml(machine.config).set(now_w=500, **config)
    knob = PowerLimit()
    assert words in knob.refused_here(value)
    assert words in knob.available(value)
    with pytest.raises(SensorError, match=words), knob.applied(value):
        pytest.fail("it was refused")
    assert machine.gpu_log() == []


def fake_card(folder: Path, **cap: float) -> str:
    card = {
        "shape": "constant",
        "load": {"power_w": 600},
        "cap": {"now_w": 500, "default_w": 700, "min_w": 200, "max_w": 700},
    }
    file = folder / "card.json"
    file.write_text(json.dumps(card), encoding="utf-8")
    return f"fake:{file}"


def test_a_fake_card_is_capped_only_where_it_is_named(machine: Machine, tmp_path: Path) -> None:
    knob = PowerLimit()
    knob.site = Site(devices=(fake_card(tmp_path),))
    with knob.applied("60%"):
        (row,) = knob.told()
    assert (row["simulated"], row["in_force_w"], row["found_w"]) == (True, 420.0, 500.0)
    assert machine.gpu_log() == [], "no real card is capped for a simulated one"


def test_a_real_cap_is_never_simulated(machine: Machine, tmp_path: Path) -> None:
    FakeNvml(machine.config).set(gpus=0)
    fake_card(tmp_path)
    assert "no GPU whose power can be capped" in PowerLimit().refused_here("400")
    knob = PowerLimit()
    knob.site = Site(devices=("replay:power.csv",))
    assert "no real device is capped for a simulated one" in knob.refused_here("400")


def test_other_workers_of_a_node_make_sure_and_set_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PowerLimit().applied("400"):
        monkeypatch.setenv("LOCAL_RANK", "1")
        with PowerLimit().applied("400"):
            assert len(machine.gpu_log()) == 2
        monkeypatch.setattr("joulelab.knobs.power_cap.FOLLOW_S", 0.0)
        monkeypatch.setattr("joulelab.knobs.power_cap.follow.__kwdefaults__", {"wait_s": 0.0})
        with (
            pytest.raises(SensorError, match="is at 400 W: the first worker of this node has not set 350"),
            PowerLimit().applied("350"),
        ):
            pytest.fail("it is not in force")
    assert len(machine.gpu_log()) == 4


def test_a_user_who_may_run_nvidia_smi_by_sudo(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeNvml(machine.config).set(now_w=500, may_set=0)
    programs = allow_sudo(machine)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    with PowerLimit().applied("400"):
        assert machine.gpu_log() == [(0, 400_000), (1, 400_000)]
    assert machine.gpu_log()[2:] == [(1, 500_000), (0, 500_000)]
    first = (machine.path / "sudo.log").read_text(encoding="utf-8").splitlines()[0]
    assert first == f"-n {programs}/nvidia-smi -i GPU-000000b0-1111-2222-3333-444444444444 -pl 400"


def test_without_permission_the_cure_is_a_line_that_can_be_copied(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeNvml(machine.config).set(now_w=500, may_set=0)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SensorError) as refused, PowerLimit().applied("400"):
        pytest.fail("it was refused")
    assert "sudo nvidia-smi -i GPU-000000b0-1111-2222-3333-444444444444 -pl 400" in refused.value.cure
    assert "NOPASSWD: /usr/bin/nvidia-smi ^-i GPU-" in refused.value.cure
