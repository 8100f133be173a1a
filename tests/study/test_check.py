# SPDX-License-Identifier: Apache-2.0
"""A trial from a command line or from Python is checked like one from a file."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from joulelab.errors import InputError
from joulelab.knobs.knob import Knob
from joulelab.records.parameter import Parameter, Scalar
from joulelab.records.trial import TrialSpec
from joulelab.study.check import check_here, check_trial, checked, from_text, launcher_of, trial_spec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Silent(Knob):
    parameter = Parameter(name="silent", kind="int", help="changes nothing")


class Acting(Knob):
    parameter = Parameter(name="acting", kind="int", help="acts by itself", minimum=1)

    @contextlib.contextmanager
    def applied(self, value: Scalar) -> Iterator[None]:
        del value
        yield


def test_text_becomes_what_the_declaration_says() -> None:
    spec = trial_spec(
        "nt3", parameters={"scale": "0.1"}, knobs={"batch_size": "40", "precision": "bf16"}, repeats=2
    )
    assert (spec.parameters["scale"], spec.knobs["batch_size"], spec.knobs["precision"]) == (0.1, 40, "bf16")
    assert spec.knobs["loader"] == "ours"


def test_saying_the_default_is_the_same_trial() -> None:
    plain = trial_spec("nt3", parameters={}, knobs={})
    said = trial_spec("nt3", parameters={"scale": 1}, knobs={"batch_size": 20})
    assert plain.identity() == said.identity() == checked(TrialSpec(workload="nt3")).identity()


def test_a_loader_that_cannot_read_the_files_of_a_workload_is_refused() -> None:
    with pytest.raises(InputError, match=r"loader = 'loadtxt': it reads no gaps(.|\n)*loader = 'ours'"):
        trial_spec("p1b3", parameters={}, knobs={"loader": "loadtxt"})
    assert trial_spec("p1b1", parameters={}, knobs={"loader": "loadtxt"}).knobs["loader"] == "loadtxt"


@pytest.mark.parametrize(
    ("parameters", "knobs", "words"),
    [
        ({}, {"batch_size": "20.5"}, "batch_size = '20.5' is not legal"),
        ({}, {"batch_size": "many"}, "batch_size = 'many' is not legal"),
        ({"scale": "nan"}, {}, "scale = nan is not legal"),
        ({"skale": "1"}, {}, "did you mean 'scale'"),
        ({}, {"precison": "fp32"}, "did you mean 'precision'"),
        ({}, {"precision": "fp8x"}, "precision = 'fp8x' is not legal"),
    ],
)
def test_refuses(parameters: dict[str, object], knobs: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        trial_spec("nt3", parameters=parameters, knobs=knobs)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "7", 7),
        ("int", "7.0", "7.0"),
        ("float", "1e-3", 0.001),
        ("bool", "True", True),
        ("bool", "1", "1"),
        ("str", "7", "7"),
    ],
)
def test_from_text(kind: str, text: str, value: object) -> None:
    assert from_text(Parameter(name="p", kind=kind, help=""), text) == value


def test_repeats_of_a_spec_made_by_hand() -> None:
    with pytest.raises(InputError, match="repeats = 0 is not legal"):
        checked(TrialSpec(workload="nt3", repeats=0))


def test_a_plug_in_knob_must_do_something() -> None:
    parts = f"{__name__}:"
    knobs = check_trial("nt3", parameters={}, knobs={parts + "Acting": 3})[1]
    assert knobs[parts + "Acting"] == 3
    with pytest.raises(InputError, match="acting = 0 is not legal"):
        check_trial("nt3", parameters={}, knobs={parts + "Acting": 0})
    with pytest.raises(InputError, match="would change nothing"):
        check_trial("nt3", parameters={}, knobs={parts + "Silent": 3})
    with pytest.raises(InputError, match="is not a knob"):
        check_trial("nt3", parameters={}, knobs={"math:pi": 3})


def test_a_target_is_checked_against_what_the_workload_evaluates() -> None:
    _, knobs = check_trial("nt3", parameters={}, knobs={"target": "val_accuracy >= 0.9"})
    assert knobs["target"] == "val_accuracy >= 0.9"
    with pytest.raises(InputError, match=r"unknown figure in the target 'val_acc'(.|\n)*'val_accuracy'"):
        check_trial("nt3", parameters={}, knobs={"target": "val_acc >= 0.9"})


def test_a_launcher_is_one() -> None:
    assert launcher_of("local").here
    with pytest.raises(InputError, match=r"x:2: 'math:pi' is not a launcher\n  cure: derive it from"):
        launcher_of("math:pi", where="x:2")


def test_a_meter_that_is_not_there_is_refused_before_anything_starts(tmp_path: Path) -> None:
    missing = f"fake:{tmp_path / 'none.json'}"
    with pytest.raises(InputError, match=r"x:7: fake: cannot read"):
        check_here({}, workload="nt3", devices=[missing], place=lambda table, key: f"x:{len(key)}")
    check_here({}, workload="nt3", devices=["estimate"])
