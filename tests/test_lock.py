# SPDX-License-Identifier: Apache-2.0
"""requirements.lock is complete, agrees with itself and with pyproject.toml, and is what the tests run on."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT

LOCK = {
    canonicalize_name(name): version
    for name, version in re.findall(
        r"^([\w.-]+)==(\S+)$", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE
    )
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def asked_of(text: str) -> list[Requirement]:
    """The requirement, if it holds on this system."""
    requirement = Requirement(text)
    holds = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    return [requirement] if holds else []


def missing(requirements: list[Requirement]) -> list[str]:
    """Requirements that no line of the lock fulfils."""
    found = []
    for requirement in requirements:
        version = LOCK.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            found.append(f"{requirement} (locked: {version})")
    return found


def test_every_line_is_a_pin() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    names = [line for line in lines if not line.startswith("#")]
    assert names == [f"{name}=={LOCK[name]}" for name in sorted(LOCK)]


def test_it_fulfils_the_project() -> None:
    wanted = [
        *PROJECT["dependencies"],
        *(text for extra in PROJECT["optional-dependencies"].values() for text in extra),
    ]
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert missing([requirement for text in [*wanted, *build] for requirement in asked_of(text)]) == []


@pytest.mark.parametrize("name", LOCK)
def test_it_fulfils_what_it_names(name: str) -> None:
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{name} is not installed here: only what is installed tells its needs")
    wanted = [requirement for text in distribution.requires or [] for requirement in asked_of(text)]
    # torch's build for CUDA names NVIDIA's libraries and pins each of them itself.
    wanted = [
        requirement for requirement in wanted if not re.match(r"nvidia-(?!ml)|cuda-|triton", requirement.name)
    ]
    assert missing(wanted) == []


def test_a_gap_is_found() -> None:
    assert missing([Requirement("no-such-thing>=1")]) == ["no-such-thing>=1 (locked: None)"]
    assert missing([Requirement("numpy<1")]) == [f"numpy<1 (locked: {LOCK[canonicalize_name('numpy')]})"]
    assert missing([Requirement("numpy>=2.0")]) == []
