# SPDX-License-Identifier: Apache-2.0
"""What lies in a folder of classes, in one order, and what is missing there, by name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from joulelab.data.image_folder import classes, scan
from joulelab.errors import InputError
from tests.data import image_parts

if TYPE_CHECKING:
    from pathlib import Path


def test_classes_and_files_are_in_the_order_of_their_names(weird_tmp_path: Path) -> None:
    for name in ("b/2.PNG", "b/10.jpeg", "a/x.jpg", "c/y.webp"):
        (weird_tmp_path / name).parent.mkdir(exist_ok=True)
        (weird_tmp_path / name).touch()
    found = scan(weird_tmp_path)
    assert found.classes == classes(weird_tmp_path) == ("a", "b", "c")
    assert found.files == ("a/x.jpg", "b/10.jpeg", "b/2.PNG", "c/y.webp")
    assert found.labels.tolist() == [0, 1, 1, 2]


def test_what_is_no_image_is_left_out(tmp_path: Path) -> None:
    image_parts.folder(tmp_path, each=1)
    here = tmp_path / "class 0"
    for name in ("._0.png", "notes.txt", "Thumbs.db"):
        (here / name).touch()
    (here / "folder.png").mkdir()
    (tmp_path / ".joulelab-cache").mkdir()
    (tmp_path / "README.jpg").touch()
    assert scan(tmp_path).files == ("class 0/0.png", "class 1/0.png")


def test_a_link_that_leads_nowhere_is_a_file_that_cannot_be_decoded(tmp_path: Path) -> None:
    image_parts.folder(tmp_path, classes=1, each=1)
    (tmp_path / "class 0" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    assert scan(tmp_path).files == ("class 0/0.png", "class 0/gone.png")


def test_the_state_changes_with_every_file(tmp_path: Path) -> None:
    image_parts.folder(tmp_path)
    states = [scan(tmp_path).state]
    assert scan(tmp_path).state == states[0]
    one = tmp_path / "class 1" / "1.png"
    status = one.stat()
    os.utime(one, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    states.append(scan(tmp_path).state)
    with one.open("ab") as file:
        file.write(b"x")
    os.utime(one, ns=(status.st_atime_ns, status.st_mtime_ns))
    states.append(scan(tmp_path).state)
    one.rename(one.with_name("2b.png"))
    states.append(scan(tmp_path).state)
    (tmp_path / "class 1" / "2b.png").unlink()
    states.append(scan(tmp_path).state)
    (tmp_path / "class 1").rename(tmp_path / "class 2")
    states.append(scan(tmp_path).state)
    assert len(set(states)) == 6


def test_an_empty_class_is_named(tmp_path: Path) -> None:
    image_parts.folder(tmp_path)
    (tmp_path / "class 1b").mkdir()
    (tmp_path / "class 1b" / "notes.txt").touch()
    with pytest.raises(InputError, match=r"class 1b holds no image(.|\n)*legal endings are \.jpg"):
        scan(tmp_path)


def test_no_folder_and_no_class(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gone is not a folder of images"):
        scan(tmp_path / "gone")
    (tmp_path / "lonely.jpg").touch()
    with pytest.raises(InputError, match=r"holds no folder of a class(.|\n)*/CLASS/"):
        scan(tmp_path)
