# SPDX-License-Identifier: Apache-2.0
"""A folder with a folder of images for each class, as ImageNet is laid out: what lies in it, unopened."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from joulelab.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The images of a folder by their paths below it, class by class in the order of names."""

    root: Path
    classes: tuple[str, ...]
    files: tuple[str, ...]
    labels: np.ndarray
    state: str  # changes when a file is added, taken away, or written to


def classes(root: Path) -> tuple[str, ...]:
    """The classes of `root` by name, or an InputError that says what is missing and where."""
    if not root.is_dir():
        raise InputError(
            f"{root} is not a folder of images", cure="give a folder that holds a folder for each class"
        )
    found = sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and entry.name[0] != ".")
    if not found:
        raise InputError(
            f"{root} holds no folder of a class", cure=f"put the images of each class into {root}/CLASS/"
        )
    return tuple(found)


def scan(root: Path) -> Listing:
    """What lies in `root`, or an InputError that says what is missing and where."""
    names = classes(root)
    files: list[str] = []
    labels: list[int] = []
    state = hashlib.sha256()
    for label, name in enumerate(names):
        found = sorted(
            (entry.name, *_state(entry))
            for entry in os.scandir(root / name)
            if entry.name[0] != "." and entry.name.lower().endswith(SUFFIXES) and not entry.is_dir()
        )
        if not found:
            raise InputError(
                f"{root / name} holds no image",
                cure=f"remove that folder, or put images into it: legal endings are {', '.join(SUFFIXES)}",
            )
        files += [f"{name}/{file}" for file, _, _ in found]
        labels += [label] * len(found)
        state.update(repr((name, found)).encode())
    return Listing(
        root=root,
        classes=names,
        files=tuple(files),
        labels=np.array(labels, np.int64),
        state=state.hexdigest(),
    )


def _state(entry: os.DirEntry[str]) -> tuple[int, int]:
    """Size and time of change. A link that leads nowhere has none: it is found out when it is decoded."""
    try:
        status = entry.stat()
    except FileNotFoundError:
        return -1, 0
    return status.st_size, status.st_mtime_ns
