# SPDX-License-Identifier: Apache-2.0
"""`fake:FILE.json`: what it makes, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from joulelab.errors import InputError, SensorError
from joulelab.hardware.fake import Fake
from joulelab.hardware.find import find


def write(path: Path, content: Any) -> str:
    file = path / "node.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    return f"fake:{file}"


def test_groups_of_devices(tmp_path: Path) -> None:
    cap = {"now_w": 500, "default_w": 700, "min_w": 200, "max_w": 700}
    name = write(
        tmp_path,
        [
            {"count": 2, "shape": "steps", "load": {"seed": 4}, "cap": cap, "buffer_period_s": 0.02},
            {"kind": "cpu", "shape": "constant", "load": {"power_w": 90}, "counter_period_s": 0.001},
        ],
    )
    found = find([name])
    assert [d.uid for d in found.devices] == ["gpu:fake-node-0", "gpu:fake-node-1", "cpu:fake-node-2"]
    assert [d.kind for d in found.devices] == ["gpu", "gpu", "cpu"]
    assert all(isinstance(d, Fake) and d.simulated for d in found.devices)
    limits = found.devices[0].limits()
    assert limits is not None
    assert (limits.now_w, limits.min_w) == (500, 200)
    assert found.devices[2].traits.counter_period_s == 0.001


def test_an_empty_file_is_a_plain_board(tmp_path: Path) -> None:
    (device,) = find([write(tmp_path, {})]).devices
    assert device.traits.counter_period_s == 0.1


def test_a_denied_sensor_is_told_once(tmp_path: Path) -> None:
    found = find([write(tmp_path, {"denied": ["counter"], "power_period_s": 0.1})])
    assert found.devices[0].source == "integrated"
    (problem,) = found.problems
    assert "no permission to read counter" in problem.what


def test_all_denied_is_no_device(tmp_path: Path) -> None:
    with pytest.raises(SensorError, match="no permission to read counter"):
        find([write(tmp_path, {"denied": ["counter"]})])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"shpae": "square"}, "did you mean 'shape'"),
        ({"shape": "sqare"}, "did you mean 'square'"),
        ({"shape": "square", "load": {"hi_w": 3}}, "high_w"),
        ({"shape": "constant", "load": 3}, "legal keys: power_w"),
        ({"shape": "trace"}, "times_s"),
        ({"count": 0}, "count = 0"),
        ({"count": True}, "count = True"),
        ({"counter_period_s": "fast"}, "counter_period_s = 'fast'"),
        ({"denied": "counter"}, "denied = 'counter'"),
        ({"denied": ["energy"]}, "legal: counter, buffer, power"),
        ({"kind": "tpu"}, "unknown kind"),
        ({"cap": {"now_w": 1}}, "default_w"),
        ([3], "is not an object"),
    ],
)
def test_mistakes_name_what_is_legal(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        find([write(tmp_path, content)])


def test_a_file_that_is_not_there_or_not_json(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        find([f"fake:{tmp_path / 'none.json'}"])
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="is not JSON"):
        find([f"fake:{tmp_path / 'bad.json'}"])
