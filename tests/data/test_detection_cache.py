# SPDX-License-Identifier: Apache-2.0
"""Squares are kept whole or not at all, and who was stopped goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from joulelab.data import detection_cache, pictures
from joulelab.data.detection_cache import build, find
from joulelab.data.labelled_pictures import Annotations, Picture
from joulelab.data.tiling import Cut
from tests.data import detection_parts

if TYPE_CHECKING:
    from pathlib import Path

CUT = Cut(side=32, tiled=True)
KEY = {"of": "these"}


@pytest.fixture
def told(tmp_path: Path) -> Annotations:
    boxes = np.array([[0, 4, 4, 20, 20]], np.float32)
    made = []
    for k in range(6):
        path = tmp_path / "images" / f"{k}.png"
        detection_parts.picture(path, width=60, height=32, seed=k)
        part = "val" if k == 5 else "train"
        made.append(Picture(path=path, width=60, height=32, boxes=boxes, part=part))
    return Annotations(pictures=tuple(made), classes=("one",), dropped={"a reason": 3})


def test_what_is_built_is_found(tmp_path: Path, told: Annotations) -> None:
    where = tmp_path / "entry.tiles"
    assert find(where, key=KEY) is None
    build(where, lambda: told, key=KEY, cut=CUT, threads=2)
    found = find(where, key=KEY)
    assert found is not None
    assert found.pixels.shape == (12, 3, 32, 32)
    assert found.training.tolist() == list(range(10))
    assert found.validation.tolist() == [10, 11]
    assert found.dropped == {"a reason": 3}
    assert sorted(path.name for path in where.iterdir()) == ["boxes.npy", "index.json", "lock", "pixels.npy"]
    assert find(where, key={"of": "others"}) is None
    found.pixels[0] = 0  # whoever writes to it writes to his own
    again = find(where, key=KEY)
    assert again is not None
    assert again.pixels[0].any()


@pytest.mark.parametrize("name", ["pixels.npy", "boxes.npy", "index.json"])
@pytest.mark.parametrize("left", [0, 40])
def test_a_torn_file_is_not_taken(tmp_path: Path, told: Annotations, name: str, left: int) -> None:
    where = tmp_path / "entry.tiles"
    build(where, lambda: told, key=KEY, cut=CUT)
    file = where / name
    file.write_bytes(file.read_bytes()[:left])
    assert find(where, key=KEY) is None
    build(where, lambda: told, key=KEY, cut=CUT)
    found = find(where, key=KEY)
    assert found is not None
    assert found.pixels[11].any()


def test_who_was_stopped_goes_on(tmp_path: Path, told: Annotations, monkeypatch: pytest.MonkeyPatch) -> None:
    where = tmp_path / "entry.tiles"
    decode = pictures.pixels
    read: list[str] = []

    def counted(path: Path, **sides: int) -> Any:
        read.append(path.name)
        if len(read) == 4:
            raise KeyboardInterrupt
        return decode(path, **sides)

    monkeypatch.setattr(pictures, "pixels", counted)
    with pytest.raises(KeyboardInterrupt):
        build(where, lambda: told, key=KEY, cut=CUT, threads=1)
    assert find(where, key=KEY) is None
    with (where / "done.jsonl").open("a") as journal:
        journal.write('[3, "')  # and he was in the middle of a line
    monkeypatch.setattr(pictures, "pixels", decode)
    read.clear()

    def listed(path: Path, **sides: int) -> Any:
        read.append(path.name)
        return decode(path, **sides)

    monkeypatch.setattr(pictures, "pixels", listed)
    build(where, lambda: told, key=KEY, cut=CUT, threads=1)
    assert read == ["3.png", "4.png", "5.png"]
    found = find(where, key=KEY)
    assert found is not None
    for k, picture in enumerate(told.pictures):
        seen = decode(picture.path, width=60, height=32)
        np.testing.assert_array_equal(found.pixels[2 * k], seen[:, :32].transpose(2, 0, 1))
        np.testing.assert_array_equal(found.pixels[2 * k + 1], seen[:, 28:].transpose(2, 0, 1))


def test_what_another_built_in_the_meantime_is_taken(tmp_path: Path, told: Annotations) -> None:
    where = tmp_path / "entry.tiles"
    build(where, lambda: told, key=KEY, cut=CUT)

    def never() -> Annotations:
        raise AssertionError("it is there")

    build(where, never, key=KEY, cut=CUT)


def test_the_name_is_of_the_key(tmp_path: Path) -> None:
    one, other = (detection_cache.name(tmp_path / "xview", {"side": side}) for side in (32, 64))
    assert one != other
    assert one.startswith("xview.")
    assert one.endswith(".tiles")
