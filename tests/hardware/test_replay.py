# SPDX-License-Identifier: Apache-2.0
"""Recorded curves, played on a clock that the test turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from joulelab.errors import InputError
from joulelab.hardware.find import find
from joulelab.hardware.loads import Load
from joulelab.hardware.replay import Replay, read

RECORD = """# joulelab power schema=1
time_ns,device,power_w
1000000000,gpu:GPU-a,999.0
1000000000,cpu:package-0,999.0
1500000000,gpu:GPU-a,100.0
2000000000,cpu:package-0,50.0
2500000000,gpu:GPU-a,300.0
3000000000,gpu:GPU-a,7"""


@pytest.fixture
def record(tmp_path: Path) -> Path:
    path = tmp_path / "power.csv"
    path.write_text(RECORD, encoding="utf-8")
    return path


def test_a_line_of_a_record_is_the_mean_since_the_line_before(record: Path) -> None:
    curves = read(record)
    assert curves["gpu:GPU-a"] == [(0.5, 100.0, 100.0), (1.0, 300.0, 300.0)]  # the torn last line is left out
    assert curves["cpu:package-0"] == [(1.0, 50.0, 50.0)]


def test_it_plays_from_its_start_and_again(record: Path) -> None:
    now_ns = 77 * 10**9
    device = Replay(power=Load(read(record)["gpu:GPU-a"]), clock=lambda: now_ns)
    opened_ns = now_ns
    for after_s, power_w in ((0.0, 100.0), (0.4, 100.0), (0.6, 300.0), (1.4, 300.0), (1.6, 100.0)):
        now_ns = opened_ns + round(after_s * 1e9)
        assert device.power_w() == power_w
    assert device.truth_j(opened_ns, opened_ns + 3 * 10**9) == pytest.approx(2 * (50.0 + 300.0))


def test_devices_of_a_file_are_named_apart_from_real_ones(record: Path) -> None:
    devices = find([f"replay:{record}"]).devices
    assert [d.uid for d in devices] == ["gpu:replay-GPU-a", "cpu:replay-package-0"]
    assert [d.kind for d in devices] == ["gpu", "cpu"]
    assert all(d.simulated and d.source == "integrated" for d in devices)


def test_a_plain_file_holds_each_power_until_the_next(tmp_path: Path) -> None:
    path = tmp_path / "card.csv"
    path.write_text("time_s,power_w\n0.0,10\n0.5,20\n1.5,30", encoding="utf-8")
    assert read(path) == {"gpu:card": [(0.5, 10.0, 10.0), (1.0, 20.0, 20.0), (0.75, 30.0, 30.0)]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "legal headers"),
        ("a,b\n1,2\n", "legal headers"),
        ("time_s,power_w\n", "holds no power"),
        ("time_s,power_w\n1,2\n2,x\n", ":3: '2,x'"),
        ("time_s,power_w\n1,2\n1,3\n", "times rising"),
        ("time_ns,device,power_w\n2,gpu:a,1\n1,gpu:a,1\n", "do not rise"),
    ],
)
def test_what_cannot_be_played_is_refused(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=words):
        read(path)


def test_a_file_must_be_named_and_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file is named"):
        find(["replay"])
    with pytest.raises(InputError, match="cannot read"):
        find([f"replay:{tmp_path / 'none.csv'}"])
