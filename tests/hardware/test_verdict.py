# SPDX-License-Identifier: Apache-2.0
"""What a calibration leaves for the meters that come."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from joulelab.errors import RecordError
from joulelab.hardware import verdict
from joulelab.hardware.device import Device, Traits
from joulelab.hardware.find import find
from joulelab.hardware.verdict import Verdict

FOUND = Verdict(
    uid="gpu:GPU-1/x",
    name="A card",
    driver="999.01",
    wall_ns=1,
    counter_period_s=0.05,
    buffer_lag_s=0.02,
    buffer_lag_error_s=0.002,
    buffer_window_s=0.06,
    words=("a", "b"),
)


class Card(Device):
    uid = "gpu:GPU-1/x"
    driver = "999.01"

    def __init__(self, **traits: float | None) -> None:
        given: dict[str, float | None] = {
            "counter_period_s": 0.1,
            "buffer_period_s": 0.02,
            "power_period_s": 0.1,
            **traits,
        }
        self.traits = Traits(**given)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def folder(weird_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(verdict.FOLDER, str(weird_tmp_path / "new"))
    return weird_tmp_path / "new"


def test_what_is_kept_is_read_again() -> None:
    assert verdict.read(FOUND.uid) is None
    verdict.keep(FOUND)
    assert verdict.read(FOUND.uid) == FOUND


def test_a_board_takes_on_what_was_found() -> None:
    verdict.keep(FOUND)
    card = Card()
    assert "999.01" in verdict.apply(card)
    traits = card.traits
    assert (traits.counter_period_s, traits.buffer_lag_s, traits.buffer_window_s) == (0.05, 0.02, 0.06)
    assert traits.buffer_lag_error_s == 0.002


def test_a_blind_counter_gives_way_to_power() -> None:
    verdict.keep(replace(FOUND, counter_is_trusted=False))
    card = Card()
    verdict.apply(card)
    assert (card.source, card.traits.counter_period_s) == ("integrated", None)
    alone = Card(buffer_period_s=None, power_period_s=None)
    verdict.apply(alone)
    assert (alone.source, alone.traits.counter_period_s) == ("counter", 0.05), "there is nothing better"


def test_a_wrong_buffer_gives_way_to_edges() -> None:
    verdict.keep(replace(FOUND, buffer_is_trusted=False))
    card = Card()
    verdict.apply(card)
    assert card.traits.buffer_period_s is None
    assert card.traits.counter_period_s == 0.05


def test_what_was_found_under_another_driver_is_not_used() -> None:
    verdict.keep(replace(FOUND, driver="1.0"))
    card = Card()
    assert "not used" in verdict.apply(card)
    assert card.traits == Card().traits


def test_sensors_that_the_board_has_not_do_not_appear() -> None:
    verdict.keep(FOUND)
    card = Card(counter_period_s=None, buffer_period_s=None)
    before = card.traits
    verdict.apply(card)
    assert card.traits == before


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 99},
        {"uid": "gpu:another"},
        {"buffer_lag_s": -1.0},
        {"buffer_lag_s": "late"},
        {"counter_period_s": 1e9},
        {"words": 7},
    ],
)
def test_a_verdict_that_makes_no_sense_is_passed_over(change: dict[str, object]) -> None:
    path = verdict.keep(FOUND)
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **change}), encoding="utf-8")
    assert verdict.read(FOUND.uid) is None


def test_a_torn_verdict_is_passed_over() -> None:
    path = verdict.keep(FOUND)
    path.write_bytes(path.read_bytes()[:40])
    assert verdict.read(FOUND.uid) is None


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict.keep(FOUND)
    monkeypatch.setenv(verdict.FOLDER, "off")
    assert verdict.read(FOUND.uid) is None


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="ascii")
    monkeypatch.setenv(verdict.FOLDER, str(tmp_path / "file"))
    with pytest.raises(RecordError, match="JOULELAB_CALIBRATION=FOLDER"):
        verdict.keep(FOUND)


def test_the_usual_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(verdict.FOLDER)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert verdict.folder() == tmp_path / "joulelab" / "sensors"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert verdict.folder() == tmp_path / ".local" / "state" / "joulelab" / "sensors"


def test_finding_devices_applies_it(tmp_path: Path) -> None:
    file = tmp_path / "node.json"
    file.write_text(json.dumps({"buffer_period_s": 0.02}), encoding="utf-8")
    uid = "gpu:fake-node-0"
    verdict.keep(replace(FOUND, uid=uid, driver=""))
    assert find([f"fake:{file}"]).devices[0].traits.buffer_lag_s == 0.02
    assert find([f"fake:{file}"], calibrated=False).devices[0].traits.buffer_lag_s == 0.015
