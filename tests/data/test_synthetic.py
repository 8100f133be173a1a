# SPDX-License-Identifier: Apache-2.0
"""Drawn pictures have a pattern for each class, the same for every seed, under noise that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from joulelab.data import synthetic
from joulelab.data.synthetic import kept, planted

if TYPE_CHECKING:
    from pathlib import Path


def test_the_seed_decides_the_bytes() -> None:
    images, labels = planted(count=12, classes=3, size=16, seed=4)
    assert images.shape == (12, 16, 16, 3)
    assert images.dtype == np.uint8
    assert labels.dtype == np.int64
    again = planted(count=12, classes=3, size=16, seed=4)
    assert np.array_equal(images, again[0])
    assert np.array_equal(labels, again[1])
    other = planted(count=12, classes=3, size=16, seed=5)
    assert not np.array_equal(images, other[0])


def test_classes_are_equally_frequent_and_in_mixed_order() -> None:
    labels = planted(count=60, classes=5, size=8, seed=0)[1]
    assert np.bincount(labels).tolist() == [12] * 5
    assert not np.array_equal(labels, np.arange(60) % 5)


def test_what_was_learnt_on_one_seed_is_seen_on_another() -> None:
    # The nearest mean of a class: chance is a quarter.
    (images, labels), (others, wanted) = (planted(count=n, classes=4, size=16, seed=n) for n in (400, 200))
    means = np.stack([images[labels == k].mean(0) for k in range(4)])
    found = ((others[:, None].astype(float) - means) ** 2).sum((2, 3, 4)).argmin(1)
    assert (found == wanted).mean() > 0.6


def test_a_pattern_is_shifted_and_mirrored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "NOISE", 0.0)
    images, labels = planted(count=400, classes=2, size=16, seed=0)
    seen = {image.tobytes() for image in images[labels == 0]}
    assert len(seen) > 40, "5 x 5 shifts, each of them mirrored or not"
    assert len(seen) <= 50


def test_they_are_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"count": 9, "classes": 3, "size": 8, "seed": 2}
    images, labels = kept(tmp_path / "new", **given)
    assert np.array_equal(images, planted(**given)[0])
    assert np.array_equal(labels, planted(**given)[1])
    (file,) = (tmp_path / "new").iterdir()
    images[0] = 0  # whoever writes to it writes to his own
    monkeypatch.setattr(synthetic, "planted", pytest.fail)
    again, labels_again = kept(tmp_path / "new", **given)
    assert again[0].any()
    assert np.array_equal(labels_again, labels)
    assert list((tmp_path / "new").iterdir()) == [file]


@pytest.mark.parametrize("name", ["count", "classes", "size", "seed"])
def test_other_pictures_lie_in_another_file(tmp_path: Path, name: str) -> None:
    given = {"count": 9, "classes": 3, "size": 8, "seed": 2}
    kept(tmp_path, **given)
    kept(tmp_path, **{**given, name: given[name] + 1})
    assert len(list(tmp_path.iterdir())) == 2


def test_who_is_stopped_leaves_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(**given: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(synthetic, "planted", stopped)
    with pytest.raises(KeyboardInterrupt):
        kept(tmp_path, count=9, classes=3, size=8, seed=2)
    assert list(tmp_path.iterdir()) == []
