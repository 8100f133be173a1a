# SPDX-License-Identifier: Apache-2.0
"""Pictures come from folders or are drawn, before anything is measured; what is left out is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from joulelab.data import cache_folder
from joulelab.errors import InputError
from joulelab.workloads.resnet import Resnet
from tests.data import image_parts
from tests.workloads.resnet_parts import loaded, repeat, setting

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(cache_folder.VARIABLE, raising=False)
    image_parts.folder(tmp_path / "images" / "train", each=10)
    image_parts.folder(tmp_path / "images" / "val", each=5)
    return tmp_path / "images"


def test_folders_are_decoded_before_the_training_and_progress_is_said(folders: Path, tmp_path: Path) -> None:
    said: list[str] = []
    made = Resnet(replace(setting(tmp_path, data=str(folders), batch_size=8), say=said.append))
    made.prepare()
    assert said[0] == f"decoding {folders / 'train'}: 0 of 20 images"
    assert said[-1] == f"decoding {folders / 'val'}: 10 of 10 images"
    assert len(said) <= 2 * 11
    said.clear()
    made.load()
    assert said == [], "all was done"
    assert made.classes == 2
    assert torch.equal(made.train._table, torch.from_numpy(image_parts.pixels(20)))
    assert made.val.labels.tolist() == [0] * 5 + [1] * 5
    assert (made.steps, made.notes) == (3, ())


def test_a_corrupt_picture_is_told_in_the_log_and_beside_the_figures(folders: Path, tmp_path: Path) -> None:
    (folders / "train" / "class 1" / "3.png").write_bytes(b"no image")
    said: list[str] = []
    given = replace(setting(tmp_path, data=str(folders), batch_size=8), say=said.append)
    Resnet(given).prepare()
    (note,) = (words for words in said if "decoding" not in words)
    assert note.startswith(
        f"{folders / 'train'}: 1 of 20 images cannot be decoded and are left out: class 1/3.png"
    )
    for task in ("train", "inference"):
        done, _ = repeat(tmp_path, data=str(folders), batch_size=8, epochs=1, task=task)
        assert done.valid
        assert note in done.total.flags
        assert done.samples == (19 if task == "train" else 10)


def test_different_classes_are_refused_before_anything_is_decoded(folders: Path, tmp_path: Path) -> None:
    (folders / "val" / "class 1").rename(folders / "val" / "class 3")
    with pytest.raises(InputError, match=r"different classes: only one of them has class 1, class 3"):
        Resnet(setting(tmp_path, data=str(folders))).prepare()
    assert not (folders / "train" / cache_folder.BESIDE).exists()
    with pytest.raises(InputError, match="nowhere/train is not a folder of images"):
        Resnet(setting(tmp_path, data=str(tmp_path / "nowhere"))).prepare()


def test_a_batch_larger_than_the_set_is_refused_before_the_training(folders: Path, tmp_path: Path) -> None:
    given = setting(tmp_path, data=str(folders), recipe="fast", batch_size=21)
    with pytest.raises(
        InputError, match=r"batch_size = 21 is more than the 20 training pictures(.|\n)*up to 20"
    ):
        Resnet(given).prepare()
    Resnet(setting(tmp_path, data=str(folders), batch_size=21)).prepare()


def test_drawn_pictures_are_made_once_for_all_trials(tmp_path: Path) -> None:
    Resnet(setting(tmp_path)).prepare()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    before = [file.stat().st_mtime_ns for file in files]
    assert loaded(tmp_path, recipe="fast").train.labels.bincount().tolist() == [32] * 4
    assert [file.stat().st_mtime_ns for file in files] == before
    assert sorted(tmp_path.iterdir()) == files
