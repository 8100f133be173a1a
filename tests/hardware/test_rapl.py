# SPDX-License-Identifier: Apache-2.0
"""RAPL on made-up powercap folders."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from joulelab.errors import SensorError
from joulelab.hardware.rapl import Rapl
from tests.fakes.powercap import RANGE_UJ, Powercap, server


@pytest.fixture
def two_sockets(tmp_path: Path) -> Powercap:
    return server(tmp_path)


def test_the_sum_is_packages_and_dram(two_sockets: Powercap) -> None:
    found = Rapl.find(str(two_sockets.root))
    uids = {d.uid for d in found.devices}
    assert uids == {
        "cpu:package-0", "core:package-0", "dram:package-0", "cpu:package-1", "dram:package-1", "node:psys"
    }  # fmt: skip
    summed = {d.uid: d.energy_j() for d in found.devices if d.part_of not in uids}
    assert summed == {
        "cpu:package-0": 100.0,
        "dram:package-0": 30.0,
        "cpu:package-1": 200.0,
        "dram:package-1": 40.0,
    }
    kinds = {d.uid: d.kind for d in found.devices}
    assert kinds["node:psys"] == "node"
    assert kinds["dram:package-1"] == "dram"
    assert not found.problems


def test_the_same_machine_with_nested_folders(tmp_path: Path) -> None:
    made = Powercap(tmp_path)
    made.domain("intel-rapl:0", "package-0")
    made.domain("intel-rapl:0/intel-rapl:0:0", "dram")
    assert [d.uid for d in Rapl.find(str(tmp_path)).devices] == ["cpu:package-0", "dram:package-0"]


def test_dies_keep_their_names(tmp_path: Path) -> None:
    made = Powercap(tmp_path)
    for number, name in ((0, "package-0-die-0"), (1, "package-0-die-1"), (10, "package-1-die-0")):
        made.domain(f"intel-rapl:{number}", name)
        made.domain(f"intel-rapl:{number}:0", "core")
    uids = [d.uid for d in Rapl.find(str(tmp_path)).devices if d.uid.startswith("cpu")]
    assert uids == ["cpu:package-0-die-0", "cpu:package-0-die-1", "cpu:package-1-die-0"]


def test_amd_has_package_and_core_and_no_limit(tmp_path: Path) -> None:
    made = Powercap(tmp_path)
    made.domain("intel-rapl:0", "package-0", range_uj=65_532_610_987)
    made.domain("intel-rapl:0:0", "core", range_uj=65_532_610_987)
    package, core = Rapl.find(str(tmp_path)).devices
    assert package.limits() is None
    assert package.traits.power_max_w == 400.0
    assert core.part_of == package.uid


def test_psys_alone_is_summed(tmp_path: Path) -> None:
    Powercap(tmp_path).domain("intel-rapl:0", "psys")
    (device,) = Rapl.find(str(tmp_path)).devices
    assert not device.part_of


def test_a_wrap_is_the_range_and_one_unit(two_sockets: Powercap) -> None:
    device = Rapl.find(str(two_sockets.root)).devices[0]
    unit_uj = RANGE_UJ / (2**32 - 1)
    assert unit_uj == pytest.approx(61.035, abs=0.001)
    range_j = device.traits.counter_range_j
    assert range_j is not None
    assert range_j == pytest.approx((RANGE_UJ + unit_uj) / 1e6, rel=1e-12)
    two_sockets.set("intel-rapl:0", RANGE_UJ - 5_000_000)
    before_j = device.energy_j()
    two_sockets.set("intel-rapl:0", 3_000_000)
    assert (device.energy_j() - before_j) % range_j == pytest.approx(8.000061, abs=1e-6)


def test_the_cap(two_sockets: Powercap) -> None:
    device = Rapl.find(str(two_sockets.root)).devices[0]
    limits = device.limits()
    assert limits is not None
    assert (limits.now_w, limits.max_w) == (205.0, 205.0)
    assert device.traits.power_max_w == pytest.approx(246.0), "the short-term limit is the highest"


def test_a_machine_without_rapl(tmp_path: Path) -> None:
    found = Rapl.find(str(tmp_path))
    assert not found.devices
    (problem,) = found.problems
    assert "no CPU energy counter" in problem.what
    assert "modprobe" in problem.cure


def test_a_counter_that_goes_away(two_sockets: Powercap) -> None:
    device = Rapl.find(str(two_sockets.root)).devices[0]
    (two_sockets.root / "intel-rapl:0" / "energy_uj").unlink()
    with pytest.raises(SensorError, match="package-0"):
        device.energy_j()


def test_a_counter_that_holds_no_number(tmp_path: Path) -> None:
    path = Powercap(tmp_path).domain("intel-rapl:0", "package-0")
    (path / "energy_uj").write_text("", encoding="ascii")
    found = Rapl.find(str(tmp_path))
    assert not found.devices
    assert "package-0" in found.problems[0].what


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter, which pytest's own are not."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def test_no_permission_names_the_commands(open_folder: Path) -> None:
    server(open_folder)
    for energy in open_folder.glob("*/energy_uj"):
        energy.chmod(0o400)
    # Root may read everything: a child that is root becomes another user once it has its modules.
    code = (
        "import encodings.ascii, os, sys\nfrom joulelab.hardware.rapl import Rapl\n"
        "if os.geteuid() == 0:\n    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "found = Rapl.find(sys.argv[1])\n"
        "print(len(found.devices), *(f'{p.what}|{p.cure}' for p in found.problems), sep='\\n')"
    )
    if os.geteuid() != 0:
        for energy in open_folder.glob("*/energy_uj"):
            energy.chmod(0o000)
    sources = str(Path(sys.modules["joulelab.hardware.rapl"].__file__ or "").parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code, str(open_folder)],
        env={**os.environ, "PYTHONPATH": sources},
        capture_output=True,
        check=False,
    )
    lines = done.stdout.decode().splitlines()
    assert lines, done.stderr.decode()
    assert lines[0] == "0"
    assert "no permission to read the energy of package-0, core of package-0, dram of package-0" in lines[1]
    assert f"sudo chmod a+r {open_folder}/intel-rapl*/energy_uj" in lines[1]
    assert "/etc/udev/rules.d/60-powercap.rules" in "".join(lines[2:])
