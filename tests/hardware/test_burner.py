# SPDX-License-Identifier: Apache-2.0
"""The process that keeps a GPU busy, in good health and bad."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from joulelab.errors import SensorError
from joulelab.hardware.burner import Burner

STAND_IN = str(Path(__file__).parents[1] / "fakes" / "burner.py")


@contextmanager
def started(folder: Path, *how: str) -> Iterator[Burner]:
    burner = Burner(
        [sys.executable, STAND_IN, str(folder / "load"), "100", "700", *how], environment={"A": "b"}
    )
    try:
        yield burner
    finally:
        burner.close()


def spans(length_s: float = 0.05) -> list[tuple[float, float]]:
    now_s = time.monotonic()
    return [(now_s + 0.01, now_s + 0.01 + length_s)]


def test_a_train_comes_back_as_it_was(tmp_path: Path) -> None:
    with started(tmp_path) as burner:
        assert burner.wait(10.0) == "a stand-in", "what a library prints is no answer"
        sent = spans()
        burner.send(sent)
        assert burner.spans(5.0)[0] == pytest.approx(sent[0])
        assert time.monotonic() >= sent[0][1]


def test_a_refusal_is_passed_on_with_its_cure(tmp_path: Path) -> None:
    with started(tmp_path, "--refuses") as burner, pytest.raises(SensorError, match="sees no GPU") as caught:
        burner.wait(10.0)
    assert caught.value.cure == "install another torch"


def test_one_that_dies_is_noticed(tmp_path: Path) -> None:
    with started(tmp_path, "--dies-after", "0") as burner:
        burner.wait(10.0)
        burner.send(spans())
        with pytest.raises(SensorError, match="the load ended with 0"):
            burner.spans(5.0)
        assert burner.ended
        with pytest.raises(SensorError, match="the load has ended"):
            burner.send(spans())


def test_one_that_says_nothing_is_not_waited_for_without_end(tmp_path: Path) -> None:
    with started(tmp_path, "--mute") as burner:
        burner.wait(10.0)
        burner.send(spans())
        with pytest.raises(SensorError, match=r"did not answer within 0\.2 s"):
            burner.spans(0.2)


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(OSError, match="No such file"):
        Burner(["/nonexistent/burner"], environment={})
