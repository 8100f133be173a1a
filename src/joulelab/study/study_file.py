# SPDX-License-Identifier: Apache-2.0
"""A study as a person writes it: TOML, read into a `Study` or refused with file, line, key and cure."""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from joulelab.errors import InputError, unknown
from joulelab.records.layout import SCHEMA
from joulelab.records.parameter import Parameter, Scalar
from joulelab.study.check import (
    REPEATS,
    SEED,
    WARMUP,
    check_devices,
    check_here,
    check_knob,
    check_trial,
    launcher_of,
    recipe_of,
)
from joulelab.study.toml_lines import TomlLines, line_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

WORKLOAD = Parameter(name="workload", kind="str", help="what is trained")
NAME = Parameter(name="name", kind="str", help="of the study; names its folder and its table")
LAUNCHER = Parameter(name="launcher", kind="str", default="local", help="where trials run")
VALUES = {p.name: p for p in (WORKLOAD, NAME, REPEATS, WARMUP, SEED, LAUNCHER)}
TABLES = ("parameters", "knobs", "grid")
KEYS = (*VALUES, "devices", *TABLES)
MOST_TRIALS = 100_000


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """Which trials, before they are spelt out: what is fixed, and the lists whose product is run."""

    name: str
    workload: str
    parameters: dict[str, Scalar] = {}
    knobs: dict[str, Scalar] = {}
    grid: dict[str, tuple[Scalar, ...]] = {}  # in the order written; the last varies fastest
    repeats: int = 1
    warmup: int = 0
    seed: int = 0
    launcher: str = "local"
    devices: tuple[str, ...] = ()
    schema: int = SCHEMA

    def count(self) -> int:
        return math.prod(len(values) for values in self.grid.values())


def read_study(path: Path) -> Study:
    """The study in a file. Nothing has started when this refuses it."""
    try:
        # TOML is UTF-8; editors of one operating system put a mark in front of it.
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8", cure="save the file as UTF-8") from error
    except OSError as error:
        raise InputError(
            f"study file '{path}' cannot be read: {error.strerror}", cure="give the path of a TOML file"
        ) from error
    return parse_study(text, path=path)


def parse_study(text: str, *, path: Path) -> Study:
    """The study in a text; `path` is for the errors, and its stem the name of a study that has none."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"{path}:{line_in(str(error), text)}: not TOML: {error}",
            cure="text stands in quotes, a list in [ ], a table's name in [ ] on a line of its own",
        ) from error
    return _File(path, TomlLines(text), table).study()


@dataclass(frozen=True)
class _File:
    """The parsed file, and where each key of it stands."""

    path: Path
    lines: TomlLines
    table: Mapping[str, Any]

    def place(self, table: str, key: str) -> str:
        names = [name for name in (table, key) if name]
        return f"{self.path}:{self.lines.of(*names)}:" + (f" [{table}]" if table else " study")

    def study(self) -> Study:
        for key in self.table:
            if key not in KEYS:
                raise unknown("key", key, KEYS, where=self.place("", key))
        values = {name: self._value(name) for name in VALUES}
        if values["workload"] is None:
            raise InputError(
                f"{self.path}:1: the key 'workload' is missing", cure='say what is trained: workload = "nt3"'
            )
        name = self._name(values["name"])
        workload = str(values["workload"])
        grid = self._grid(workload)
        parameters, knobs = check_trial(
            workload,
            # A parameter without a default may be given by the grid: its first value stands for all.
            parameters={
                **{n: v[0] for n, v in grid.items() if self._is_parameter(n, workload)},
                **self._fixed("parameters"),
            },
            knobs=self._fixed("knobs"),
            place=self.place,
        )
        launcher = str(values["launcher"])
        where_it_runs = launcher_of(launcher, where=self.place("", "launcher"))
        devices = self._devices()
        if where_it_runs.here:
            self._check_here(workload, knobs, grid, devices)
        return Study(
            name=name,
            workload=workload,
            parameters={n: v for n, v in parameters.items() if n not in grid},
            knobs={n: v for n, v in knobs.items() if n not in grid},
            grid=grid,
            repeats=int(values["repeats"] or 1),
            warmup=int(values["warmup"] or 0),
            seed=int(values["seed"] or 0),
            launcher=launcher,
            devices=devices,
        )

    def _check_here(
        self,
        workload: str,
        knobs: Mapping[str, Scalar],
        grid: Mapping[str, tuple[Scalar, ...]],
        devices: tuple[str, ...],
    ) -> None:
        fixed = {name: (value,) for name, value in knobs.items() if name not in grid}
        varied = {name: values for name, values in grid.items() if not self._is_parameter(name, workload)}
        check_here(fixed, workload=workload, devices=devices, place=self.place)
        check_here(varied, workload=workload, devices=devices, place=lambda _, key: self.place("grid", key))

    def _value(self, name: str) -> Scalar | None:
        parameter = VALUES[name]
        if name not in self.table:
            return parameter.default
        return parameter.check(self.table[name], where=self.place("", name))

    def _name(self, given: Scalar | None) -> str:
        name = str(given) if given is not None else self.path.stem
        if not re.fullmatch(r"[\w+-][\w .+-]*", name):
            raise InputError(
                f"{self.place('', 'name')}: name = {name!r} cannot name a folder",
                cure="legal: letters, digits, blanks, and . _ + - after the first",
            )
        return name

    def _devices(self) -> tuple[str, ...]:
        given = self.table.get("devices", [])
        return check_devices(given if isinstance(given, list) else [given], where=self.place("", "devices"))

    def _fixed(self, table: str) -> dict[str, object]:
        """A table of fixed values; one that also stands in [grid] would be said twice."""
        given = self._table(table)
        for key in given:
            if key in self._table("grid"):
                raise InputError(
                    f"{self.place('grid', key)}: '{key}' stands in [{table}] "
                    f"(line {self.lines.of(table, key)}) and in [grid]",
                    cure="keep one of the two",
                )
        return given

    def _table(self, name: str) -> dict[str, Any]:
        given = self.table.get(name, {})
        if not isinstance(given, dict):
            raise InputError(
                f"{self.place('', name)}: '{name}' must be a table", cure=f"write it as [{name}]"
            )
        return given

    def _is_parameter(self, key: str, workload: str) -> bool:
        recipe = recipe_of(workload)
        return key not in recipe.knobs and key in {p.name for p in recipe.parameters}

    def _grid(self, workload: str) -> dict[str, tuple[Scalar, ...]]:
        grid = {key: self._axis(key, values, workload) for key, values in self._table("grid").items()}
        count = math.prod(len(values) for values in grid.values())
        if count > MOST_TRIALS:
            raise InputError(
                f"{self.place('', 'grid')}: the grid asks for {count:,} trials, more than {MOST_TRIALS:,}",
                cure="shorten its lists",
            )
        return grid

    def _axis(self, key: str, values: object, workload: str) -> tuple[Scalar, ...]:
        where = self.place("grid", key)
        recipe = recipe_of(workload, where=self.place("", "workload"))
        if not self._is_parameter(key, workload):
            if key not in recipe.knobs and ":" not in key:
                legal = [*recipe.knobs, *(p.name for p in recipe.parameters)]
                raise unknown("knob or parameter", key, legal, where=where)
            check: Callable[..., Scalar] = partial(check_knob, key, recipe)
        else:
            check = recipe.parameter(key, where=where).check
        if not isinstance(values, list) or not values:
            what = "an empty list" if isinstance(values, list) else f"{values!r}, not a list"
            raise InputError(
                f"{where}: {key} is {what}", cure=f"write {key} = [first, second], or move it out of [grid]"
            )
        checked = tuple(check(value, where=where) for value in values)
        if twice := [value for value, count in Counter(checked).items() if count > 1]:
            raise InputError(
                f"{where}: {key} holds {twice[0]!r} twice", cure="each trial runs once; set `repeats`"
            )
        return checked
