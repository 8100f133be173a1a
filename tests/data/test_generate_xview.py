# SPDX-License-Identifier: Apache-2.0
"""The stand-in has xView's layout, its shares and its faults."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

from joulelab.data import generate_xview, pictures, xview, xview_kinds

if TYPE_CHECKING:
    from pathlib import Path


def test_pictures_and_their_sides(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    paths = generate_xview.generate(tmp_path, scale=0.006, progress=lambda *step: seen.append(step))
    assert paths[0].name == "xView_train.geojson"
    assert len(paths) == 6
    assert seen == [(k, 5) for k in range(1, 6)]
    for path in paths[1:]:
        width, _height = pictures.size(path)
        assert 2600 * 0.006**0.5 - 1 <= width <= 3400 * 0.006**0.5 + 1
        assert path.name != "1395.tif"
    assert sorted(path.name for path in (tmp_path / "train_images").iterdir()) == sorted(
        path.name for path in paths[1:]
    )


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    paths = generate_xview.generate(tmp_path, scale=0.005)
    stamps = [path.stat().st_mtime_ns for path in paths]
    paths[2].unlink()
    generate_xview.generate(tmp_path, scale=0.005)
    again = [path.stat().st_mtime_ns for path in paths]
    assert [a == b for a, b in zip(stamps, again, strict=True)] == [True, True, False, *[True] * 2]


def test_full_pictures_are_as_dense_as_the_original() -> None:
    counts: Counter[int] = Counter()
    numbers = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        objects = generate_xview._scatter(rng, xview_kinds.KINDS, width=3000, height=3000, alike=False)
        numbers.append(len(objects))
        counts.update(one.kind for one in objects)
    assert np.mean(numbers) == pytest.approx(705, rel=0.35), "a heavy tail makes it vary"
    assert max(numbers) > 3 * np.median(numbers)
    total = sum(counts.values())
    assert counts[73] / total == pytest.approx(0.526, abs=0.05)
    assert counts[18] / total == pytest.approx(0.352, abs=0.05)


def test_a_kind_has_its_colour_and_its_box(tmp_path: Path) -> None:
    generate_xview.generate(tmp_path, scale=0.006, classes=3)
    for picture in xview.read(tmp_path, classes=3).pictures:
        seen = pictures.pixels(picture.path, width=picture.width, height=picture.height).astype(int)
        for kind, x1, y1, x2, y2 in picture.boxes.astype(int).tolist():
            inside = seen[y1:y2, x1:x2].reshape(-1, 3)
            number = xview_kinds.chosen(3)[kind].number
            colour = generate_xview._colour(number)
            near = (abs(inside - colour) < 40).all(1).mean()
            assert near > 0.3, f"type {number} in {picture.path.name}"
    labels = (tmp_path / "xView_train.geojson").read_text()
    assert '"type_id":75' in labels
    assert "1395.tif" in labels
    assert '"bounds_imcoords":[]' in labels


@pytest.mark.parametrize("number", [11, 12, 13, 15, 19])
def test_shapes_touch_each_side_of_their_box(number: int) -> None:
    shape = generate_xview._shape(number, 14, 20)
    assert shape.any(0)[[0, -1]].all()
    assert shape.any(1)[[0, -1]].all()
