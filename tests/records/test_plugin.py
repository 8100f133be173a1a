# SPDX-License-Identifier: Apache-2.0
"""A name in a registry, or of a class anywhere: what is refused is refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from joulelab.errors import InputError
from joulelab.records import plugin

REGISTRY = {"path": "pathlib:Path"}


def test_a_registered_name_and_the_name_of_a_class_lead_to_the_class() -> None:
    assert plugin.load(REGISTRY, "path", what="part") is Path
    assert plugin.load(REGISTRY, "pathlib:Path", what="part") is Path


def test_a_misspelt_name_is_told_the_legal_ones() -> None:
    with pytest.raises(InputError, match=r"unknown part 'pth'\n.*did you mean 'path'"):
        plugin.load(REGISTRY, "pth", what="part")


@pytest.mark.parametrize(
    "name", [":Path", "..pathlib:Path", "pathlib:", "path lib:Path", "pathlib..x:Path", ":"]
)
def test_what_cannot_be_a_class_is_no_traceback(name: str) -> None:
    with pytest.raises(InputError, match="is no name of a class"):
        plugin.load(REGISTRY, name, what="part")


@pytest.mark.parametrize(
    ("name", "words"),
    [("no_such_module:Path", "no module 'no_such_module'"), ("pathlib:Pth", "has no 'Pth'")],
)
def test_what_is_not_there_is_named(name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        plugin.load(REGISTRY, name, what="part")


def test_a_module_that_lacks_something_itself_says_so_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_part_of_mine.py").write_text("import not_installed_here\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_installed_here"):
        plugin.load(REGISTRY, "a_part_of_mine:Part", what="part")
