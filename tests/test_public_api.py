# SPDX-License-Identifier: Apache-2.0
"""The public names are a promise: a change here is a change for every user."""

from __future__ import annotations

import inspect
import json
import re

import pytest

import joulelab
from joulelab.errors import InputError, JouleLabError
from tests.test_light import python

NAMES = [
    "JouleLabError",
    "Measurement",
    "Meter",
    "TrialSpec",
    "__version__",
    "devices",
    "load_records",
    "measure",
    "run",
]

SIGNATURES = {
    "Measurement": (
        "(*, time_s, energy_j, energy_error_j, energy_j_by_device=<factory>, power_w=None, source='counter', "
        "resolution_s=0.0, flags=())"
    ),
    "Meter": "(*, out=None, devices=(), synchronize=True)",
    "TrialSpec": (
        "(*, workload, parameters=<factory>, knobs=<factory>, repeats=1, warmup=0, seed=0, command=(), "
        "devices=(), small=False, schema=1)"
    ),
    "devices": "(names=())",
    "load_records": "(path)",
    "measure": "(name='', *, out=None, devices=(), synchronize=True)",
    "run": "(spec, *, out, launcher='local', on_progress=ignore)",
}

# What the process looks like from inside, before and after; the names are used, too.
UNCHANGED = """
import atexit, json, logging, os, signal, sys, threading, warnings
from pathlib import Path

def state():
    umask = os.umask(0o77)
    os.umask(umask)
    return {
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "files": sorted(os.listdir()),
        "threads": [thread.name for thread in threading.enumerate()],
        "children": [p.read_text() for p in Path("/proc/self/task").glob("*/children")],
        "open files": len(list(Path("/proc/self/fd").iterdir())),
        "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
        "at exit": atexit._ncallbacks(),
        "path": list(sys.path),
        "finders": [str(finder) for finder in sys.meta_path],
        "hooks": [str(sys.excepthook), str(threading.excepthook), str(sys.displayhook), str(sys.gettrace())],
        "warnings": [str(rule) for rule in warnings.filters],
        "logging": [logging.root.level, str(logging.root.handlers)],
        "umask": umask,
        "recursion": sys.getrecursionlimit(),
        "switch": sys.getswitchinterval(),
    }

before = state()
import joulelab
imported = state()
for name in joulelab.__all__:
    getattr(joulelab, name)
print(json.dumps([before, imported, state()]))
"""


def signature(value: object) -> str:
    assert callable(value)
    plain = inspect.signature(value)
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in plain.parameters.values()]
    text = str(plain.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    return re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", text)


def test_the_list_of_names() -> None:
    assert joulelab.__all__ == NAMES
    assert joulelab.__all__ == sorted(joulelab.__all__)
    assert set(NAMES) <= set(dir(joulelab))


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_there_and_stays_the_same(name: str) -> None:
    value = getattr(joulelab, name)
    assert getattr(joulelab, name) is value


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"__version__", "JouleLabError"}))
def test_signature(name: str) -> None:
    assert signature(getattr(joulelab, name)) == SIGNATURES[name]


def test_one_class_catches_every_error() -> None:
    assert joulelab.JouleLabError is JouleLabError
    assert issubclass(InputError, joulelab.JouleLabError)


def test_a_misspelt_name_lists_the_names() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'mesure'.*measure"):
        joulelab.mesure  # noqa: B018  the access is what is tested


def test_star_import() -> None:
    found = python("from joulelab import *\nprint(*sorted(set(dir()) & {'measure', 'Meter', 'run'}))")
    assert found.split() == ["Meter", "measure", "run"]


def test_importing_changes_nothing_in_the_process() -> None:
    before, imported, used = json.loads(python(UNCHANGED))
    assert imported == before
    assert used == before


def test_version_is_the_changelogs(request: pytest.FixtureRequest) -> None:
    text = (request.config.rootpath / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (request.config.rootpath / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## {joulelab.__version__}" in text
    assert f"\nversion: {joulelab.__version__}\n" in citation
