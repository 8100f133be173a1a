# SPDX-License-Identifier: Apache-2.0
"""Average precision of cases worked out by hand."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch

from joulelab.errors import InputError
from joulelab.workloads.yolo_map import mean_average_precision


def rows(*given: tuple[float, ...], width: int) -> torch.Tensor:
    return torch.tensor(given, dtype=torch.float32).reshape(-1, width)


WANTED = rows((0, 3, 10, 10, 30, 30), (1, 3, 50, 50, 90, 70), width=6)


def test_one_wrong_between_two_right() -> None:
    found = rows(
        (0, 3, 10, 10, 30, 30, 0.9),
        (1, 3, 0, 0, 20, 20, 0.8),
        (1, 3, 50, 50, 90, 70, 0.7),
        width=7,
    )
    # Half is recalled at precision 1, the rest at 2/3: 51 and 50 of the 101 points.
    want = (51 + 50 * 2 / 3) / 101
    assert mean_average_precision(WANTED, found, pictures=2) == pytest.approx({"map50": want, "map": want})


def test_a_box_that_is_not_exact_counts_up_to_its_overlap() -> None:
    # 20 x 20 against 20 x 16: an IoU of 0.8, more than 0.5 to 0.75. The other one is exact.
    found = rows((0, 3, 10, 10, 30, 26.001, 0.9), (1, 3, 50, 50, 90, 70, 0.7), width=7)
    figures = mean_average_precision(WANTED, found, pictures=2)
    assert figures["map50"] == pytest.approx(1)
    # Beyond 0.8 the more confident is wrong: half is recalled at precision 1/2.
    beyond = 51 * 0.5 / 101
    assert figures["map"] == pytest.approx((7 * 1 + 3 * beyond) / 10)


def test_a_class_is_a_class_of_its_own_and_each_weighs_the_same() -> None:
    wanted = rows((0, 0, 10, 10, 30, 30), (0, 1, 50, 50, 90, 70), (1, 1, 50, 50, 90, 70), width=6)
    found = rows(
        (0, 0, 10, 10, 30, 30, 0.9),
        (0, 2, 50, 50, 90, 70, 0.8),  # of a class of which there is nothing: not looked at
        (0, 0, 50, 50, 90, 70, 0.1),
        width=7,
    )
    assert mean_average_precision(wanted, found, pictures=2)["map50"] == pytest.approx(0.5)


def test_a_label_is_found_once() -> None:
    twice = rows((0, 3, 10, 10, 30, 30, 0.9), (0, 3, 10, 10, 30, 30, 0.8), width=7)
    one = mean_average_precision(WANTED[:1], twice, pictures=1)
    assert one["map50"] == pytest.approx(1), "what comes after the last object is found costs nothing"
    assert mean_average_precision(WANTED, twice, pictures=2)["map50"] == pytest.approx(51 / 101)


def test_nothing_found_is_nought(capsys: pytest.CaptureFixture[str]) -> None:
    none = torch.zeros(0, 7)
    assert mean_average_precision(WANTED, none, pictures=2) == {"map50": 0.0, "map": 0.0}
    assert capsys.readouterr().out == ""


def test_three_hundred_of_a_picture_count() -> None:
    wrong = [(0, 3, 60 + k % 7, 60, 80 + k % 7, 80, 0.9 - k * 1e-3) for k in range(300)]
    right = (0, 3, 10, 10, 30, 30, 0.1)
    at_301 = mean_average_precision(WANTED[:1], rows(*wrong, right, width=7), pictures=1)
    assert at_301["map50"] == 0
    at_300 = mean_average_precision(WANTED[:1], rows(*wrong[:299], right, width=7), pictures=1)
    assert at_300["map50"] == pytest.approx(1 / 300)


def test_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def without(name: str, *more: Any) -> Any:
        return None if name == "pycocotools" else real(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(InputError, match=r"pycocotools(.|\n)*joulelab\[vision\]"):
        mean_average_precision(WANTED, torch.zeros(0, 7), pictures=2)
