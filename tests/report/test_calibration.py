# SPDX-License-Identifier: Apache-2.0
"""The words of a calibration."""

from __future__ import annotations

import json

from joulelab.hardware.calibrate import Calibration, CardReport
from joulelab.hardware.cost import Cost
from joulelab.hardware.device import Problem
from joulelab.hardware.judge import Row
from joulelab.hardware.verdict import Verdict
from joulelab.report import calibration


def card(*, verdict: Verdict | None, kept: str = "") -> CardReport:
    row = Row(
        train="drifting",
        seconds=8.0,
        counter_w=296.72,
        counter_swing=0.2,
        buffer_w=None,
        fields_w={"instant field": 130.0},
    )
    return CardReport(
        uid="gpu:1",
        name="A card",
        load="A card, torch 2",
        seconds=41.2,
        costs={"counter": Cost(wall_s=0.0038, cpu_s=0.0037, reads=20)},
        periods_s={"counter": 0.1},
        rows=[row],
        troubles=["long: the load failed"],
        verdict=verdict,
        kept=kept,
    )


VERDICT = Verdict(uid="gpu:1", name="A card", driver="1", wall_ns=1, words=("energy counter: trusted",))


def test_all_is_said() -> None:
    said = calibration.text(Calibration(cards=(card(verdict=VERDICT, kept="/x/y.json"),), problems=()))
    for words in (
        "gpu:1  A card  (41 s, load: A card, torch 2)",
        "counter: moves every 100 ms; a read costs 3.7 ms of CPU, 3.8 ms in all",
        "counter W",
        "296.7",
        "130.0",
        "energy counter: trusted",
        "kept in /x/y.json",
        "ATTENTION: long: the load failed",
    ):
        assert words in said


def test_no_verdict_is_said() -> None:
    assert "NO VERDICT" in calibration.text(Calibration(cards=(card(verdict=None),), problems=()))
    assert "not kept" in calibration.text(Calibration(cards=(card(verdict=VERDICT),), problems=()))


def test_no_card() -> None:
    none = Problem(vendor="calibrate", what="no GPU", cure="get one")
    assert "calibrate: no GPU" in calibration.text(Calibration(cards=(), problems=(none,)))


def test_json_holds_the_same() -> None:
    content = json.loads(calibration.json(Calibration(cards=(card(verdict=VERDICT),), problems=())))
    assert content["cards"][0]["rows"][0]["counter_w"] == 296.72
    assert content["cards"][0]["verdict"]["words"] == ["energy counter: trusted"]
