# SPDX-License-Identifier: Apache-2.0
"""The small variant of a study file, and values from a command line: checked like the file itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from joulelab.errors import InputError
from joulelab.study.study_file import parse_study

FILE = """\
workload = "nt3"
repeats = 3
against = { batch_size = 40 }

[parameters]
scale = 1.0

[knobs]
epochs = 384

[grid]
batch_size = [20, 40]

[small]
repeats = 2
warmup = 1
devices = ["estimate"]
against = { batch_size = 10 }

[small.parameters]
scale = 0.01

[small.knobs]
epochs = 2
threads = 1

[small.grid]
batch_size = [5, 10]
"""
PATH = Path("a/cost.toml")


def test_small_values_go_before_those_of_the_file() -> None:
    full, small = (parse_study(FILE, path=PATH, small=small) for small in (False, True))
    assert (full.name, full.small, small.name, small.small) == ("cost", False, "cost-small", True)
    assert (full.repeats, full.warmup, full.devices) == (3, 0, ())
    assert (small.repeats, small.warmup, small.devices) == (2, 1, ("estimate",))
    assert (full.parameters["scale"], small.parameters["scale"]) == (1.0, 0.01)
    assert (full.knobs["epochs"], full.knobs["threads"]) == (384, 0)
    assert (small.knobs["epochs"], small.knobs["threads"]) == (2, 1)
    assert (full.grid, small.grid) == ({"batch_size": (20, 40)}, {"batch_size": (5, 10)})
    assert (full.against, small.against) == ({"batch_size": 40}, {"batch_size": 10})


def test_what_small_does_not_say_stays() -> None:
    small = parse_study(FILE.partition("[small]")[0] + "[small.knobs]\nepochs = 1\n", path=PATH, small=True)
    assert (small.repeats, small.parameters["scale"], small.grid) == (3, 1.0, {"batch_size": (20, 40)})
    assert small.knobs["epochs"] == 1


def test_a_file_without_a_small_variant_says_so() -> None:
    text = FILE.partition("[small]")[0]
    assert parse_study(text, path=PATH).count() == 2
    with pytest.raises(InputError, match=r"a/cost\.toml: this study has no small variant") as caught:
        parse_study(text, path=PATH, small=True)
    assert "add a table [small]" in str(caught.value)


REFUSED = {
    "key": ("repeats = 2", "repeat = 2", 15, ["[small]: unknown key 'repeat'", "did you mean 'repeats'"]),
    "key of the file alone": ("warmup = 1", 'launcher = "local"', 16, ["unknown key 'launcher'", "devices"]),
    "value": ("repeats = 2", "repeats = 0", 15, ["[small]: repeats = 0 is not legal", "at least 1"]),
    "device": ('"estimate"', '"estimat"', 17, ["[small]: unknown device 'estimat'"]),
    "parameter": ("scale = 0.01", "scal = 0.01", 21, ["[small.parameters]: unknown parameter 'scal'"]),
    "parameter value": ("0.01", "7", 21, ["[small.parameters]: scale = 7 is not legal", "from 0.001 to 1"]),
    "knob": ("threads = 1", "thread = 1", 25, ["[small.knobs]: unknown knob 'thread'"]),
    "knob value": ("epochs = 2", "epochs = 0", 24, ["[small.knobs]: epochs = 0 is not legal"]),
    "another list": ("batch_size = [5, 10]", "threads = [1]", 28, ["[small.grid]: unknown list of [grid]"]),
    "list value": ("[5, 10]", "[5, 0]", 28, ["[small.grid]: batch_size = 0 is not legal"]),
    "empty list": ("[5, 10]", "[]", 28, ["[small.grid]: batch_size is an empty list"]),
    "reference": (
        "size = 10 }",
        "size = 40 }",
        18,
        ["[small.against]: batch_size = 40 is not in [grid]", "5, 10"],
    ),
    "said twice": ("threads = 1", "batch_size = 1", 28, ["stands in [knobs] (line 25) and in [grid]"]),
    "no table": ("[small.knobs]\nepochs = 2\nthreads = 1", "[small.x]", 23, ["unknown key 'x'"]),
    "of the full variant": ("epochs = 384", "epochs = 0", 9, ["[knobs]: epochs = 0 is not legal"]),
}


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("case", REFUSED)
def test_both_variants_are_checked_whichever_is_asked_for(case: str, *, small: bool) -> None:
    old, new, line, words = REFUSED[case]
    assert old in FILE
    with pytest.raises(InputError) as caught:
        parse_study(FILE.replace(old, new, 1), path=PATH, small=small)
    message = str(caught.value)
    assert message.startswith(f"a/cost.toml:{line}:")
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("small = 3", "'small' must be a table"),
        ("[small]", "is empty"),
        ("[small]\nknobs = 3", "must be a table"),
    ],
)
def test_small_is_a_table_with_something_in_it(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_study(f'workload = "nt3"\n{text}', path=PATH)


def test_what_this_machine_cannot_do_is_asked_of_the_variant_that_will_run() -> None:
    text = (
        'workload = "nt3"\n[grid]\nprecision = ["fp32", "tf32"]\n[small.grid]\nprecision = ["fp32", "bf16"]'
    )
    assert parse_study(text, path=PATH, small=True).grid == {"precision": ("fp32", "bf16")}


def test_values_of_the_command_line_go_before_both() -> None:
    given = {"scale": "0.5", "epochs": "7", "repeats": "1"}
    for small in (False, True):
        study = parse_study(FILE, path=PATH, small=small, given=given)
        assert (study.parameters["scale"], study.knobs["epochs"], study.repeats) == (0.5, 7, 1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"epochs": "many"}, "a/cost.toml: --set epochs=many: epochs = 'many' is not legal"),
        ({"scale": "7"}, "--set scale=7: scale = 7.0 is not legal"),
        ({"epoch": "7"}, "--set epoch=7: unknown name 'epoch'"),
        ({"batch_size": "20"}, "--set batch_size=20: this study varies batch_size"),
        ({"repeats": "0"}, "--set repeats=0: repeats = 0 is not legal"),
        ({"depth": "18"}, "--set depth=18: unknown name 'depth'"),
    ],
)
def test_values_of_the_command_line_are_checked(given: dict[str, str], words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_study(FILE, path=PATH, given=given)
    assert words in str(caught.value)


def test_values_without_a_workload() -> None:
    with pytest.raises(InputError, match="'workload' is missing"):
        parse_study("repeats = 1", path=PATH, given={"epochs": "1"})
