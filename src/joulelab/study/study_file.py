# SPDX-License-Identifier: Apache-2.0
"""A study as a person writes it: TOML, read into a `Study` or refused with file, line, key and cure."""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from joulelab.errors import InputError, unknown
from joulelab.launch import LAUNCHERS
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
from joulelab.study.study_table import TABLES, StudyTable
from joulelab.study.toml_lines import TomlLines, line_in

WORKLOAD = Parameter(name="workload", kind="str", help="what is trained")
NAME = Parameter(name="name", kind="str", help="of the study; names its folder and its table")
LAUNCHER = Parameter(name="launcher", kind="str", default="local", help="where trials run")
VALUES = {p.name: p for p in (WORKLOAD, NAME, REPEATS, WARMUP, SEED, LAUNCHER)}
KEYS = (*VALUES, "devices", *TABLES, "against", "needs", "small")
FROM_FILES = ("fake", "replay")  # devices that are named with a file
SUFFIX = "-small"  # of the name of a small variant, and so of its folder
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
    against: dict[str, Scalar] = {}  # the settings that the others are compared with
    small: bool = False  # the variant that shows the way of the study, and not its figures
    options: dict[str, Any] = {}  # of the launcher, out of the table that bears its name
    schema: int = SCHEMA

    def count(self) -> int:
        return math.prod(len(values) for values in self.grid.values())


def read_study(path: Path, *, small: bool = False, given: Mapping[str, str] | None = None) -> Study:
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
    return parse_study(text, path=path, small=small, given=given)


def parse_study(
    text: str, *, path: Path, small: bool = False, given: Mapping[str, str] | None = None
) -> Study:
    """The study in a text; `path` is for the errors, and its stem the name of a study that has none.

    `given` are values from a command line, as text; they go before those of the file. Both variants of the
    file are checked, whichever is asked for.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"{path}:{line_in(str(error), text)}: not TOML: {error}",
            cure="text stands in quotes, a list in [ ], a table's name in [ ] on a line of its own",
        ) from error
    full = _File(path, TomlLines(text), table)
    reduced = full.reduced()
    if small and reduced is None:
        raise InputError(
            f"{path}: this study has no small variant",
            cure="leave --small out, or add a table [small] that says what is smaller: docs/studies.md",
        )
    variants = [each.with_given(given or {}) for each in (full, reduced) if each is not None]
    studies = [each.study(asked=each.is_small == small) for each in variants]
    return studies[int(small)]


class _File(StudyTable):
    """What the tables of a file ask for, checked."""

    def study(self, *, asked: bool) -> Study:
        """The study, checked in full; what only this machine can tell, for the variant asked for."""
        for key in self.table:
            if key not in (*KEYS, *LAUNCHERS):
                raise unknown("key", key, KEYS, where=self.place("", key))
        values = {name: self._value(name) for name in VALUES}
        if values["workload"] is None:
            raise InputError(
                f"{self.path}:1: the key 'workload' is missing", cure='say what is trained: workload = "nt3"'
            )
        name = self._name(values["name"])
        workload = str(values["workload"])
        grid = self._grid(workload)
        launcher = str(values["launcher"])
        where_it_runs = launcher_of(launcher, where=self.place("", "launcher"))
        self._needs(asked=asked, here=where_it_runs.here)
        parameters, knobs = check_trial(
            workload,
            # A parameter without a default may be given by the grid: its first value stands for all.
            parameters={
                **{n: v[0] for n, v in grid.items() if self.is_parameter(n)},
                **self._fixed("parameters"),
            },
            knobs=self._fixed("knobs"),
            place=self.place,
        )
        options = self._options(workers=[*grid.get("workers", ()), knobs.get("workers", 1)])
        devices = self._devices()
        if where_it_runs.here and asked:
            self._check_here(workload, knobs, grid, devices)
        return Study(
            name=name + SUFFIX * self.is_small,
            workload=workload,
            parameters={n: v for n, v in parameters.items() if n not in grid},
            knobs={n: v for n, v in knobs.items() if n not in grid},
            grid=grid,
            repeats=int(values["repeats"] or 1),
            warmup=int(values["warmup"] or 0),
            seed=int(values["seed"] or 0),
            launcher=launcher,
            devices=devices,
            against=self._against(grid),
            small=self.is_small,
            options=options.get(launcher, {}),
        )

    def _options(self, *, workers: Sequence[Scalar]) -> dict[str, dict[str, Any]]:
        """What the tables of launchers say, by launcher: all are checked, whichever is used."""
        checked = {}
        for name in LAUNCHERS:
            if name not in self.table and name != self.table.get("launcher"):
                continue
            found = launcher_of(name)
            if name in self.table and not found.table:
                raise InputError(
                    f"{self.place('', name)}: the launcher '{name}' has nothing to set",
                    cure=f"leave [{name}] out",
                )
            checked[name] = found.check_options(
                self.sub_table(name),
                workers=[int(number) for number in workers],
                place=lambda key, table=name: self.place(table, key),  # type: ignore[misc]
            )
        return checked

    def _check_here(
        self,
        workload: str,
        knobs: Mapping[str, Scalar],
        grid: Mapping[str, tuple[Scalar, ...]],
        devices: tuple[str, ...],
    ) -> None:
        fixed = {name: (value,) for name, value in knobs.items() if name not in grid}
        varied = {name: values for name, values in grid.items() if not self.is_parameter(name)}
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
        names = check_devices(given if isinstance(given, list) else [given], where=self.place("", "devices"))
        return tuple(self._beside(name) for name in names)

    def _beside(self, device: str) -> str:
        """A file that a device is made from is found beside the study's, wherever the command is given."""
        vendor, _, file = device.partition(":")
        beside = self.path.parent / file
        if vendor not in FROM_FILES or not file or not beside.is_file():
            return device
        return f"{vendor}:{beside.resolve()}"

    def _needs(self, *, asked: bool, here: bool) -> None:
        """What nobody but the user can say, such as where the data lies, has been said."""
        recipe = recipe_of(str(self.table["workload"]))
        for name, words in self.sub_table("needs").items():
            where = self.place("needs", name)
            recipe.parameter(name, where=where)
            if not isinstance(words, str) or not words:
                raise InputError(f"{where}: {name} = {words!r}", cure="say in words what is to be given")
            if name in self.sub_table("grid"):
                raise InputError(f"{where}: '{name}' stands in [grid] too", cure="keep one of the two")
            value = self.sub_table("parameters").get(name)
            said = name in self.small.get("parameters", {}) or value not in (None, "")
            if asked and not said:
                little = "" if self.is_small or "small" not in self.table else "; or try it with --small"
                raise InputError(
                    f"{where}: this study has to be told {name}: {words}",
                    cure=f"joulelab study {self.path} --set {name}=...{little}",
                )
            if asked and here and isinstance(value, str) and "/" in value and not Path(value).exists():
                raise InputError(
                    f"{self.place('parameters', name)}: there is no '{value}'", cure=f"{name}: {words}"
                )

    def _against(self, grid: Mapping[str, tuple[Scalar, ...]]) -> dict[str, Scalar]:
        """The reference that the trials are compared with: it has to be one of them."""
        found = {}
        for key, value in self.sub_table("against").items():
            where = self.place("against", key)
            if key not in grid:
                raise unknown("list of [grid]", key, grid, where=where)
            found[key] = self._check_of(key, where=where)(value, where=where)
            if found[key] not in grid[key]:
                raise InputError(
                    f"{where}: {key} = {value!r} is not in [grid]",
                    cure=f"legal: {', '.join(map(str, grid[key]))}",
                )
        return found

    def _fixed(self, table: str) -> dict[str, object]:
        """A table of fixed values; one that also stands in [grid] would be said twice."""
        given = self.sub_table(table)
        for key in given:
            if key in self.sub_table("grid"):
                raise InputError(
                    f"{self.place('grid', key)}: '{key}' stands in [{table}] "
                    f"(line {self.line(table, key)}) and in [grid]",
                    cure="keep one of the two",
                )
        return given

    def _grid(self, workload: str) -> dict[str, tuple[Scalar, ...]]:
        recipe_of(workload, where=self.place("", "workload"))
        grid = {key: self._axis(key, values) for key, values in self.sub_table("grid").items()}
        count = math.prod(len(values) for values in grid.values())
        if count > MOST_TRIALS:
            raise InputError(
                f"{self.place('', 'grid')}: the grid asks for {count:,} trials, more than {MOST_TRIALS:,}",
                cure="shorten its lists",
            )
        return grid

    def _axis(self, key: str, values: object) -> tuple[Scalar, ...]:
        where = self.place("grid", key)
        check = self._check_of(key, where=where)
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

    def _check_of(self, key: str, *, where: str) -> Callable[..., Scalar]:
        """What checks a value of this knob or parameter."""
        recipe = recipe_of(str(self.table["workload"]))
        if self.is_parameter(key):
            return recipe.parameter(key, where=where).check
        if key not in recipe.listens() and ":" not in key:
            legal = [*recipe.listens(), *(p.name for p in recipe.parameters)]
            raise unknown("knob or parameter", key, legal, where=where)
        return partial(check_knob, key, recipe)
