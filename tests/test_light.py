# SPDX-License-Identifier: Apache-2.0
"""Importing JouleLab stays cheap: what a room may not load, it does not need."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_architecture import ROOT, SRC, Row, read_table

TABLE = read_table((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
HEAVY = {"torch", "numpy", "pandas", "polars", "numba", "rich", "typer", "altair", "pynvml", "psutil"}
# The rooms that people import while they train, plan or read records; the table cannot make these heavy.
LIGHT = ["__init__", "errors", "records", "hardware", "meter", "knobs", "launch", "study", "testing"]
# Their files need a library that is slow to load; their `__init__` does not, and light rooms use only that.
HEAVY_ROOMS = ["workloads", "train", "data", "analysis"]

IMPORT_WITHOUT = """
import importlib, importlib.machinery, json, sys

heavy, modules = json.loads(sys.argv[1])

class Refuse:  # to be found and not to be had: who only asks whether a library is installed is not stopped
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name.partition(".")[0] in heavy else None

    def create_module(self, spec):
        raise ImportError(f"{spec.name} is not to be had")

    def exec_module(self, module):
        raise AssertionError(module)

sys.meta_path.insert(0, Refuse())
for module in modules:
    importlib.import_module(module)
loaded = sorted(name for name in heavy if name in sys.modules)
assert not loaded, loaded
"""

TIME_IMPORT = """
import sys, time
start = time.process_time()
import joulelab
spent = time.process_time() - start
print(spent, *sorted(name for name in sys.modules if "." not in name))
"""

HELP = """
import sys
sys.argv = ["joulelab", "--help"]
try:
    from joulelab.cli import main
    main()
finally:
    print("LOADED", *sorted(name for name in sys.modules if "." not in name))
"""


def python(code: str, *words: str) -> str:
    """What a fresh interpreter prints. Only the sources are added to its path."""
    env = {"PYTHONPATH": str(SRC.parent), "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    run = subprocess.run(
        [sys.executable, "-c", code, *words], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


def modules_of(room: str) -> list[str]:
    home = SRC / room
    if not home.is_dir():
        return ["joulelab" if room == "__init__" else f"joulelab.{room}"]
    files = [file.relative_to(SRC.parent).with_suffix("") for file in home.rglob("*.py")]
    return sorted(".".join(file.parts).removesuffix(".__init__") for file in files)


def loads(room: str, table: dict[str, Row]) -> set[str]:
    """Every library that the table lets this room, or a room below it, load on import."""
    found: set[str] = set()
    for name in table[room].top:
        if name not in table:
            found.add(name)
        elif not (room in LIGHT and name in HEAVY_ROOMS):
            found |= loads(name, table)
    return found


# `__main__` is the command itself: loading it runs it.
@pytest.mark.parametrize("room", [room for room in TABLE if room not in {*HEAVY_ROOMS, "__main__"}])
def test_a_room_loads_only_what_it_may(room: str) -> None:
    python(IMPORT_WITHOUT, json.dumps([sorted(HEAVY - loads(room, TABLE)), modules_of(room)]))


@pytest.mark.parametrize("room", HEAVY_ROOMS)
def test_the_names_of_a_heavy_room_are_light(room: str) -> None:
    python(IMPORT_WITHOUT, json.dumps([sorted(HEAVY), [f"joulelab.{room}"]]))


@pytest.mark.parametrize("room", LIGHT)
def test_the_table_keeps_the_light_rooms_light(room: str) -> None:
    assert loads(room, TABLE) & HEAVY == set()


def test_torch_is_at_the_top_of_two_rooms_only() -> None:
    assert {room for room, row in TABLE.items() if "torch" in row.top} == {"train", "workloads"}


def test_the_check_finds_a_heavy_import() -> None:
    with pytest.raises(AssertionError, match="difflib is not to be had"):
        python(IMPORT_WITHOUT, json.dumps([["difflib"], ["joulelab.errors"]]))


def processor_time_s(code: str, *, runs: int) -> float:
    """Processor seconds of the cheapest of several fresh interpreters: waiting for others is not counted."""
    spent = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        python(code)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


def slowness() -> float:
    """How much more a bare interpreter takes than it usually does; at least 1."""
    usual_s = 0.02
    return max(1.0, processor_time_s("pass", runs=5) / usual_s)


def test_import_is_quick_and_loads_nothing() -> None:
    outputs = [python(TIME_IMPORT).split() for _ in range(5)]
    assert min(float(words[0]) for words in outputs) < 0.1 * slowness()
    assert not {*HEAVY, "msgspec"} & set(outputs[0])
    assert "joulelab" in outputs[0]


def test_help_is_quick_and_loads_nothing() -> None:
    output = python(HELP)
    assert "measure" in output
    loaded = set(output.rpartition("LOADED")[2].split())
    assert "joulelab" in loaded
    assert not {"torch", "numpy", "pandas", "polars", "numba", "pynvml"} & loaded
    assert processor_time_s(HELP, runs=5) < 0.3 * slowness()


def test_sources_are_found() -> None:
    assert "joulelab.records.layout" in modules_of("records")
    assert Path(SRC / "py.typed").exists()
