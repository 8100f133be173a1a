# SPDX-License-Identifier: Apache-2.0
"""Images that were drawn, not photographed: each class has a coarse pattern of its own under noise."""

from __future__ import annotations

import numpy as np

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
    rng = np.random.default_rng([1, seed])
    labels = rng.permutation(np.arange(count) % classes)
    images = np.empty((count, size, size, 3), np.uint8)
    most = max(1, size // 8)
    for row, label in enumerate(labels):
        image = np.roll(full[label], rng.integers(-most, most + 1, 2), (0, 1))
        image = image[:, ::-1] if rng.random() < 0.5 else image
        noise = rng.standard_normal(image.shape, np.float32)
        images[row] = np.clip(128.0 + SIGNAL * image + NOISE * noise, 0, 255)
    return images, labels.astype(np.int64)
