# SPDX-License-Identifier: Apache-2.0
"""A study file is read as written, or refused with its line, its key and the legal values."""

from __future__ import annotations

from pathlib import Path

import pytest

from joulelab.errors import InputError
from joulelab.study.study_file import parse_study, read_study

DEMO = """\
workload = "nt3"
name = "demo"
repeats = 2
warmup = 1
seed = 1

[parameters]
scale = 0.038

[knobs]
epochs = 3

[grid]
batch_size = [20, 40]
loader = ["pandas",
          "ours"]
"""
PATH = Path("a/demo.toml")


def test_reads_what_is_written_and_fills_in_the_recipe() -> None:
    study = parse_study(DEMO, path=PATH)
    assert (study.name, study.workload, study.repeats, study.warmup, study.seed) == ("demo", "nt3", 2, 1, 1)
    assert study.parameters["scale"] == 0.038
    assert study.knobs["epochs"] == 3
    assert study.knobs["precision"] == "fp32"
    assert list(study.grid.items()) == [("batch_size", (20, 40)), ("loader", ("pandas", "ours"))]
    assert study.count() == 4


def test_least_study() -> None:
    study = parse_study('workload = "nt3"', path=PATH)
    assert (study.name, study.count(), study.repeats, study.launcher) == ("demo", 1, 1, "local")


def test_a_parameter_may_vary() -> None:
    study = parse_study('workload = "nt3"\n[grid]\nscale = [0.1, 1]', path=PATH)
    assert study.grid == {"scale": (0.1, 1.0)}
    assert "scale" not in study.parameters


REFUSED = {
    "workload": ('"nt3"', '"nt4"', 1, ["unknown workload 'nt4'", "did you mean 'nt3'"]),
    "no workload": ('workload = "nt3"', "", 1, ["'workload' is missing"]),
    "plug-in": ('"nt3"', '"no_such_module:Class"', 1, ["no module 'no_such_module'"]),
    "plug-in without recipe": ('"nt3"', '"math:pi"', 1, ["does not say what it may be given"]),
    "key": ("seed = 1", "sed = 1", 5, ["unknown key 'sed'", "did you mean 'seed'", "repeats"]),
    "table": ("[grid]", "[grd]", 13, ["unknown key 'grd'", "did you mean 'grid'"]),
    "parameter": ("scale =", "skale =", 8, ["unknown parameter 'skale'", "did you mean 'scale'"]),
    "parameter value": ("0.038", "3", 8, ["[parameters]: scale = 3 is not legal", "from 0.001 to 1"]),
    "not a number": ("0.038", "nan", 8, ["scale = nan is not legal"]),
    "knob": ("epochs = 3", "epoch = 3", 11, ["unknown knob 'epoch'", "did you mean 'epochs'"]),
    "knob value": ("epochs = 3", 'epochs = "3"', 11, ["epochs = '3' is not legal", "whole number"]),
    "knob in the grid": (
        "batch_size",
        "batchsize",
        14,
        ["unknown knob or parameter 'batchsize'", "batch_size"],
    ),
    "grid value": ("[20, 40]", "[20, 40.5]", 14, ["batch_size = 40.5 is not legal", "whole number"]),
    "truth for a number": ("[20, 40]", "[20, true]", 14, ["batch_size = True is not legal"]),
    "grid choice": ('"ours"', '"hours"', 15, ["loader = 'hours' is not legal", "pandas"]),
    "empty list": ("[20, 40]", "[]", 14, ["batch_size is an empty list"]),
    "no list": ("[20, 40]", "20", 14, ["batch_size is 20, not a list"]),
    "value twice": ("[20, 40]", "[20, 20]", 14, ["batch_size holds 20 twice"]),
    "said twice": (
        "epochs = 3",
        "epochs = 3\nbatch_size = 1",
        15,
        ["stands in [knobs] (line 12) and in [grid]"],
    ),
    "repeats": ("repeats = 2", "repeats = 0", 3, ["repeats = 0 is not legal", "at least 1"]),
    "seed": ("seed = 1", "seed = -1", 5, ["seed = -1 is not legal"]),
    "name": ('"demo"', '"../demo"', 2, ["cannot name a folder"]),
    "launcher": ("seed = 1", 'launcher = "lokal"', 5, ["unknown launcher 'lokal'", "did you mean 'local'"]),
    "device": ("seed = 1", 'devices = ["nvdia"]', 5, ["unknown device 'nvdia'", "did you mean 'nvidia'"]),
    "device list": ("seed = 1", "devices = [3]", 5, ["devices = 3 is not legal"]),
    "table as value": ("[parameters]\nscale = 0.038", "parameters = 3", 7, ["'parameters' must be a table"]),
    "syntax": ("seed = 1", "seed = ", 5, ["not TOML"]),
    "key twice": ("warmup = 1", "warmup = 1\nwarmup = 2", 5, ["not TOML"]),
    "open list": ('"ours"]', '"ours"', 16, ["not TOML"]),
    "too many": ("[20, 40]", str(list(range(1, 100_000))), 13, ["199,998 trials, more than 100,000"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_with_the_place_and_the_legal_values(case: str) -> None:
    old, new, line, words = REFUSED[case]
    assert old in DEMO
    with pytest.raises(InputError) as caught:
        parse_study(DEMO.replace(old, new, 1), path=PATH)
    message = str(caught.value)
    assert message.startswith(f"a/demo.toml:{line}:")
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('workload = "nt3"\nknobs = { epochs = 0 }', 2),
        ('workload = "nt3"\n\nknobs.epochs = 0', 3),
        ('workload = "nt3"\n# [knobs]\n[ "knobs" ]  # here\n "epochs" = 0', 4),
    ],
)
def test_finds_the_line_however_the_table_is_written(text: str, line: int) -> None:
    with pytest.raises(InputError, match=rf"^a/demo\.toml:{line}: \[knobs\]: epochs = 0 is not legal"):
        parse_study(text, path=PATH)


def test_a_known_knob_that_the_workload_does_not_read() -> None:
    with pytest.raises(
        InputError, match=r"demo.toml:3: \[knobs\]: this workload does not listen to the knob 'epochs'"
    ):
        parse_study('workload = "study_parts:Quick"\n[knobs]\nepochs = 3', path=PATH)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_study(tmp_path / "none.toml")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_study(tmp_path)
    latin = tmp_path / "latin.toml"
    latin.write_bytes('name = "Zürich"'.encode("latin-1"))
    with pytest.raises(InputError, match="byte 9 is not UTF-8"):
        read_study(latin)
    marked = tmp_path / "marked.toml"
    marked.write_bytes(b"\xef\xbb\xbf" + DEMO.encode())
    assert read_study(marked).name == "demo"


NEEDY = """\
workload = "resnet"
against = { depth = 50 }

[needs]
data = "the folder of ImageNet"

[grid]
depth = [18, 50]

[small.parameters]
data = ""
"""


def test_what_only_the_user_knows_has_to_be_said() -> None:
    with pytest.raises(InputError) as caught:
        parse_study(NEEDY, path=PATH)
    message = str(caught.value)
    assert message.startswith(
        "a/demo.toml:5: [needs]: this study has to be told data: the folder of ImageNet"
    )
    assert "joulelab study a/demo.toml --set data=...; or try it with --small" in message
    with pytest.raises(InputError, match="has to be told data"):
        parse_study(NEEDY, path=PATH, given={"data": ""})


def test_what_is_said_satisfies_the_need(tmp_path: Path) -> None:
    assert parse_study(NEEDY, path=PATH, given={"data": str(tmp_path)}).parameters["data"] == str(tmp_path)
    assert parse_study(NEEDY, path=PATH, given={"data": "device"}).parameters["data"] == "device"
    assert parse_study(NEEDY, path=PATH, small=True).parameters["data"] == ""
    with pytest.raises(InputError, match=r"--set data=.*: there is no '.*/nowhere'"):
        parse_study(NEEDY, path=PATH, given={"data": str(tmp_path / "nowhere")})


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('data = "the', 'dat = "the', "unknown parameter 'dat'"),
        ('"the folder of ImageNet"', "3", "say in words what is to be given"),
        ('data = "the', 'depth = "the', "'depth' stands in \\[grid\\] too"),
        ("against = { depth = 50 }", "against = { depth = 34 }", ":2: \\[against\\]: depth = 34 is not in"),
        ("against = { depth = 50 }", "against = { depth = 35 }", "depth = 35 is not legal"),
        ("against = { depth = 50 }", "against = { dept = 50 }", "did you mean 'depth'"),
        ("against = { depth = 50 }", "against = 50", "'against' must be a table"),
    ],
)
def test_needs_and_references_are_checked(old: str, new: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_study(NEEDY.replace(old, new, 1), path=PATH, small=True)


def test_a_reference_is_spelt_as_the_grid_spells_it() -> None:
    text = 'workload = "nt3"\nagainst = { cpu_power_limit = "as-is" }\n[grid]\ncpu_power_limit = ["as-is"]'
    assert parse_study(text, path=PATH).against == {"cpu_power_limit": "as-is"}


def test_a_device_from_a_file_beside_the_study(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text("{}")
    text = 'workload = "nt3"\ndevices = ["fake:card.json", "estimate"]'
    study = parse_study(text, path=tmp_path / "mine.toml")
    assert study.devices == (f"fake:{tmp_path.resolve()}/card.json", "estimate")
    with pytest.raises(InputError, match=r"cannot read 'elsewhere.csv'"):
        parse_study(text.replace("estimate", "replay:elsewhere.csv"), path=tmp_path / "mine.toml")
