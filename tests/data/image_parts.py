# SPDX-License-Identifier: Apache-2.0
"""What the tests of image folders share: a small folder of classes, of files whose pixels are known."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from PIL import Image


def noise(side: int, *, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)


def folder(root: Path, *, classes: int = 2, each: int = 3, side: int = 8) -> Path:
    """`each` pictures of noise in each class, kept without loss; the seed of one is its place among all."""
    for label in range(classes):
        (root / f"class {label}").mkdir(parents=True)
        for k in range(each):
            path = root / f"class {label}" / f"{k}.png"
            Image.fromarray(noise(side, seed=label * each + k)).save(path)
    return root


def pixels(count: int, *, side: int = 8) -> np.ndarray:
    """Those of `folder`, in its order."""
    return np.stack([noise(side, seed=seed) for seed in range(count)])


def flags_of(file: Path) -> list[list[str]]:
    """What the kernel notes of each mapping of a file in this process."""
    found, here = [], False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
            here = line.endswith(str(file))
        elif here and line.startswith("VmFlags:"):
            found.append(line.split()[1:])
    return found
