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


def scan(root: Path) -> Listing:
    """What lies in `root`, or an InputError that says what is missing and where."""
    if not root.is_dir():
        raise InputError(
            f"{root} is not a folder of images", cure="give a folder that holds a folder for each class"
        )
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and entry.name[0] != ".")
    if not classes:
        raise InputError(
            f"{root} holds no folder of a class", cure=f"put the images of each class into {root}/CLASS/"
        )
    files: list[str] = []
    labels: list[int] = []
    state = hashlib.sha256()
    for label, name in enumerate(classes):
        found = sorted(
            (entry.name, entry.stat().st_size, entry.stat().st_mtime_ns)
            for entry in os.scandir(root / name)
            if entry.name[0] != "." and entry.name.lower().endswith(SUFFIXES)
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
        classes=tuple(classes),
        files=tuple(files),
        labels=np.array(labels, np.int64),
        state=state.hexdigest(),
    )
