# SPDX-License-Identifier: Apache-2.0
"""Images that were drawn, not photographed: each class has a coarse pattern of its own under noise."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

VERSION = 1  # of what is drawn
CELLS = 4  # a pattern is this many patches wide and high
SIGNAL, NOISE = 40.0, 40.0  # grey levels; single pixels say little, patches a lot


def planted(*, count: int, classes: int, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` images of (size, size, 3) bytes and their labels; the patterns are the same for every seed.

    The pattern of an image is shifted by up to an eighth of its width and may be mirrored, as what is
    photographed is.
    """
    patterns = np.random.default_rng(0).normal(size=(classes, CELLS, CELLS, 3))
    of_pixel = np.arange(size) * CELLS // size
    full = patterns[:, of_pixel][:, :, of_pixel]
    rng, labels = _begun(count=count, classes=classes, seed=seed)
    images = np.empty((count, size, size, 3), np.uint8)
    most = max(1, size // 8)
    for row, label in enumerate(labels):
        image = np.roll(full[label], rng.integers(-most, most + 1, 2), (0, 1))
        image = image[:, ::-1] if rng.random() < 0.5 else image
        noise = rng.standard_normal(image.shape, np.float32)
        images[row] = np.clip(128.0 + SIGNAL * image + NOISE * noise, 0, 255)
    return images, labels


def kept(folder: Path, *, count: int, classes: int, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What `planted` gives, drawn once into a file of `folder` and mapped from then on."""
    path = folder / f"drawn-v{VERSION}-{count}-of-{size}px-{classes}-classes-seed{seed}.npy"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".{path.name}.{uuid.uuid4().hex}.part"
        try:
            with part.open("wb") as file:
                np.save(file, planted(count=count, classes=classes, size=size, seed=seed)[0])
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    # Copy on write: nobody writes, and torch wants an array that could be written to.
    return np.load(path, mmap_mode="c"), _begun(count=count, classes=classes, seed=seed)[1]


def _begun(*, count: int, classes: int, seed: int) -> tuple[np.random.Generator, np.ndarray]:
    """The generator, when the labels have been drawn from it, and these."""
    rng = np.random.default_rng([1, seed])
    return rng, rng.permutation(np.arange(count) % classes).astype(np.int64)
