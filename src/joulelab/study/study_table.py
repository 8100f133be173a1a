# SPDX-License-Identifier: Apache-2.0
"""The tables of a study file and where each key stands; its small variant; values that a command line has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from joulelab.errors import InputError, unknown
from joulelab.study.check import REPEATS, SEED, WARMUP, from_text, knob_of, recipe_of

if TYPE_CHECKING:
    from joulelab.study.toml_lines import TomlLines

TABLES = ("parameters", "knobs", "grid")
IN_SMALL = (REPEATS.name, WARMUP.name, "devices", *TABLES, "against")


@dataclass(frozen=True)
class StudyTable:
    """A parsed file. `small` and `given` are in the place of what it says, and kept for the errors."""

    path: Path
    lines: TomlLines
    table: Mapping[str, Any]
    small: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)

    def place(self, table: str, key: str) -> str:
        if key in self.given and table in ("", "parameters", "knobs"):
            return f"{self.path}: --set {key}={self.given[key]}"
        names = [name for name in (*self._inside(table, key), table) if name]
        return f"{self.path}:{self.line(table, key)}:" + (f" [{'.'.join(names)}]" if names else " study")

    def line(self, table: str, key: str) -> int:
        return self.lines.of(*(name for name in (*self._inside(table, key), table, key) if name))

    def _inside(self, table: str, key: str) -> tuple[str, ...]:
        return ("small",) if key in (self.small.get(table, {}) if table else self.small) else ()

    @property
    def is_small(self) -> bool:
        return bool(self.small)

    def reduced(self) -> Self | None:
        """The small variant: what [small] says goes before what the file says; None where it has none."""
        if "small" not in self.table:
            return None
        small = self.sub_table("small")
        if not small:
            raise InputError(
                f"{self.place('', 'small')}: [small] is empty", cure=f"legal in it: {', '.join(IN_SMALL)}"
            )
        table = dict(self.table)
        for key, value in small.items():
            where = self.place("small", key)
            if key not in IN_SMALL:
                raise unknown("key", key, IN_SMALL, where=where)
            if key in (*TABLES, "against") and not isinstance(value, dict):
                raise InputError(f"{where}: '{key}' must be a table", cure=f"write it as [small.{key}]")
            if key == "grid" and (new := [name for name in value if name not in self.sub_table("grid")]):
                # Other lists would be other columns, and the small table would not have the form of the full.
                line = self.lines.of("small", "grid", new[0])
                raise unknown(
                    "list of [grid]",
                    new[0],
                    self.sub_table("grid"),
                    where=f"{self.path}:{line}: [small.grid]",
                )
            table[key] = {**self.sub_table(key), **value} if key in TABLES else value
        return replace(self, table=table, small=small)

    def with_given(self, given: Mapping[str, str]) -> Self:
        """Values of a command line in the place of the file's: of a parameter, a knob, or a plain number."""
        if not given or "workload" not in self.table:
            return self
        recipe = recipe_of(str(self.table["workload"]), where=self.place("", "workload"))
        table = dict(self.table)
        for name, text in given.items():
            where = f"{self.path}: --set {name}={text}"
            if name in self.sub_table("grid"):
                raise InputError(
                    f"{where}: this study varies {name}",
                    cure=f"change its list, line {self.line('grid', name)} of the file",
                )
            plain = {p.name: p for p in (REPEATS, WARMUP, SEED)}
            if name in plain:
                table[name] = from_text(plain[name], text)
                continue
            parameters = {p.name: p for p in recipe.parameters}
            if name not in parameters and name not in recipe.listens() and ":" not in name:
                raise unknown("name", name, [*parameters, *recipe.listens(), *plain], where=where)
            kind = "parameters" if self.is_parameter(name) else "knobs"
            declared = parameters[name] if kind == "parameters" else knob_of(name, recipe).parameter
            self.sub_table(kind)  # it is a table, or refused
            table[kind] = {**table.get(kind, {}), name: from_text(declared, text)}
        return replace(self, table=table, given=given)

    def sub_table(self, name: str) -> dict[str, Any]:
        given = self.table.get(name, {})
        if not isinstance(given, dict):
            raise InputError(
                f"{self.place('', name)}: '{name}' must be a table", cure=f"write it as [{name}]"
            )
        return given

    def is_parameter(self, key: str) -> bool:
        recipe = recipe_of(str(self.table["workload"]))
        return key not in recipe.listens() and key in {p.name for p in recipe.parameters}
