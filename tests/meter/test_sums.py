# SPDX-License-Identifier: Apache-2.0
"""What is added and what is only listed."""

from __future__ import annotations

from typing import Any

import pytest

from joulelab.meter.sums import DeviceEnergy, summed


def _device(uid: str, energy_j: float | None = 100.0, **rest: Any) -> DeviceEnergy:
    return DeviceEnergy(
        uid=uid, energy_j=energy_j, **{"source": "counter", "error_j": 1.0, "resolution_s": 0.1, **rest}
    )


def test_devices_add_up_with_their_errors() -> None:
    figures = summed([_device("gpu:0"), _device("gpu:1", 50.0, resolution_s=0.5)], time_s=2.0)
    assert (figures["energy_j"], figures["energy_error_j"], figures["power_w"]) == (150.0, 2.0, 75.0)
    assert (figures["source"], figures["resolution_s"], figures["flags"]) == ("counter", 0.5, [])
    assert figures["energy_j_by_device"] == {"gpu:0": 100.0, "gpu:1": 50.0}


def test_a_part_is_listed_and_not_added() -> None:
    devices = [_device("cpu:package-0"), _device("cpu:core-0", 60.0, part_of="cpu:package-0")]
    figures = summed(devices, time_s=1.0)
    assert figures["energy_j"] == 100.0
    assert figures["energy_j_by_device"] == {"cpu:package-0": 100.0, "cpu:core-0": 60.0}


def test_a_part_counts_where_its_whole_is_missing() -> None:
    assert summed([_device("cpu:core-0", 60.0, part_of="cpu:package-0")], time_s=1.0)["energy_j"] == 60.0


def test_estimates_never_join_a_measured_sum() -> None:
    figures = summed([_device("gpu:0"), _device("cpu", 30.0, source="estimated", error_j=15.0)], time_s=1.0)
    assert (figures["energy_j"], figures["source"]) == (100.0, "counter")
    assert figures["flags"] == ["estimated, not in the sum: cpu"]
    alone = summed([_device("cpu", 30.0, source="estimated", error_j=15.0)], time_s=1.0)
    assert (alone["energy_j"], alone["source"], alone["flags"]) == (30.0, "estimated", [])


def test_counters_and_integrals_make_an_integral() -> None:
    figures = summed([_device("gpu:0"), _device("cpu", source="integrated")], time_s=1.0)
    assert figures["source"] == "integrated"
    assert figures["flags"] == ["sum of counters and of integrated power"]


@pytest.mark.parametrize("devices", [[], [_device("gpu:0", None, flags=("gpu:0 has left",))]])
def test_no_energy_is_none_and_never_zero(devices: list[DeviceEnergy]) -> None:
    figures = summed(devices, time_s=1.0)
    assert figures["energy_j"] is None
    assert figures["energy_error_j"] is None
    assert figures["power_w"] is None
    assert figures["flags"]


def test_short_windows_and_simulations_say_so() -> None:
    figures = summed([_device("gpu:0", 4.0, simulated=True)], time_s=0.01)
    assert figures["flags"] == ["simulated", "short: error bound 25% of the energy"]
    assert summed([_device("gpu:0", 0.0)], time_s=0.0)["power_w"] is None


def test_an_estimate_is_short_only_beyond_its_models_own_error() -> None:
    long = summed([_device("cpu", 30.0, source="estimated", error_j=17.0)], time_s=1.0)
    assert long["flags"] == []
    short = summed([_device("cpu", 0.02, source="estimated", error_j=0.2)], time_s=0.01)
    assert short["flags"] == ["short: error bound 1000% of the energy"]


def test_a_lost_whole_is_not_replaced_by_its_parts() -> None:
    lost = _device("cpu:package-0", None, flags=("lost: it left",))
    core = _device("cpu:core-0", 60.0, part_of="cpu:package-0")
    figures = summed([lost, core], time_s=1.0)
    assert figures["energy_j"] is None
    assert "not in the sum: cpu:package-0" in list(figures["flags"])  # type: ignore[call-overload]
    # The whole platform holds the other package, too: it must not join it.
    psys = _device("node:psys", 300.0, part_of="cpu:package-0")
    assert summed([lost, _device("cpu:package-1"), psys], time_s=1.0)["energy_j"] == 100.0
