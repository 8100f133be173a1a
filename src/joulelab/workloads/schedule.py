# SPDX-License-Identifier: Apache-2.0
"""Learning rates over a training, as a share of the largest; progress runs from 0 to 1."""

from __future__ import annotations


def stairs(progress: float) -> float:
    """A tenth after a third of the training, a hundredth after two: 30, 60 and 90 epochs usually."""
    return 0.1 ** min(2, int(3.0 * progress + 1e-9))


def triangle(progress: float, *, top: float = 0.2, first: float = 0.1, last: float = 0.01) -> float:
    """Up to the largest rate at `top` of the training, and down in a straight line to the end."""
    if progress < top:
        return first + (1.0 - first) * progress / top
    return 1.0 + (last - 1.0) * min(1.0, (progress - top) / (1.0 - top))


def picture_size(progress: float, *, full: int) -> int:
    """Small pictures first: from four sevenths of the side to all of it at two thirds of the training."""
    least = round(full * 4 / 7 / 32) * 32
    share = 1.5 * progress
    if share >= 1.0:
        return full  # which need not be a multiple
    return min(full, round((least + share * (full - least)) / 32) * 32)
