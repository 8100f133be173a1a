# SPDX-License-Identifier: Apache-2.0
"""Checkpoints on the disk: whole or passed over, and nothing that is loaded runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import torch

from joulelab.train import checkpoint_file as file
from joulelab.train.checkpoint_file import Seal, Torn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONTENT: dict[str, Any] = {"weights": torch.arange(1000.0), "step": 3, "names": ["a", "b"], "none": None}


def seal(**more: Any) -> Seal:
    return Seal(**{"spec": "abc", "torch": "2.9", "repeat": 1, "step": 3, **more})


def test_what_was_written_is_read(weird_tmp_path: Path) -> None:
    folder = file.write(weird_tmp_path / "checkpoint", seal(), CONTENT)
    (found,) = file.seals(folder)
    assert (found.spec, found.step, found.bytes) == ("abc", 3, (folder / "rank-0.pt").stat().st_size)
    read = file.read(folder, 0)
    assert torch.equal(read.pop("weights"), CONTENT["weights"])
    assert read == {"step": 3, "names": ["a", "b"], "none": None}
    assert sorted(path.name for path in folder.iterdir()) == ["rank-0.json", "rank-0.pt"]


def _shorten(folder: Path) -> None:
    path = folder / "rank-0.pt"
    path.write_bytes(path.read_bytes()[:-1])


def _flip(folder: Path) -> None:
    path = folder / "rank-0.pt"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_shorten, r"has \d+ bytes and should have \d+"),
        (_flip, "has changed since it was written"),
        (lambda folder: (folder / "rank-0.pt").unlink(), r"rank-0.pt cannot be read: No such file"),
        (lambda folder: (folder / "rank-0.json").unlink(), "not written to its end: no rank-0.json"),
        (lambda folder: (folder / "rank-0.json").write_text("{"), r"rank-0.json is damaged"),
        (lambda folder: (folder / "rank-0.json").write_text("{}"), r"rank-0.json is damaged"),
    ],
)
def test_what_is_not_whole_is_said(tmp_path: Path, damage: Callable[[Path], object], words: str) -> None:
    folder = file.write(tmp_path, seal(), CONTENT)
    damage(folder)
    with pytest.raises(Torn, match=words):
        file.seals(folder)


def test_it_is_whole_when_every_rank_has_written(tmp_path: Path) -> None:
    folder = file.write(tmp_path, seal(ranks=2), CONTENT)
    with pytest.raises(Torn, match=r"no rank-1\.json"):
        file.seals(folder)
    assert file.write(tmp_path, seal(ranks=2, rank=1), {"own": 1}) == folder
    assert [each.rank for each in file.seals(folder)] == [0, 1]
    assert file.read(folder, 1) == {"own": 1}


def test_a_file_cannot_make_its_reader_run_anything(tmp_path: Path) -> None:
    class Malicious:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "ran"),)

    folder = file.write(tmp_path / "checkpoint", seal(), {"state": Malicious()})
    file.seals(folder)  # whoever can write the file can also seal it
    with pytest.raises(Torn, match=r"rank-0.pt holds what is not loaded: "):
        file.read(folder, 0)
    assert not (tmp_path / "ran").exists()
    torch.load(folder / "rank-0.pt", weights_only=False)
    assert (tmp_path / "ran").exists(), "it would have run"


def test_something_else_than_a_state_is_refused(tmp_path: Path) -> None:
    folder = file.write(tmp_path, seal(), [1, 2])  # type: ignore[arg-type]
    with pytest.raises(Torn, match="holds something else"):
        file.read(folder, 0)


def test_the_last_few_of_a_repeat_are_kept(tmp_path: Path) -> None:
    for step in (5, 90, 1000):
        file.write(tmp_path, seal(step=step), CONTENT)
    file.write(tmp_path, seal(repeat=2, step=7), CONTENT)
    names = [folder.name for folder in file.found(tmp_path, repeat=1)]
    assert names == [f"repeat-1-step-{step:09d}" for step in (1000, 90, 5)]
    file.prune(tmp_path, repeat=1, keep=2)
    assert [folder.name for folder in file.found(tmp_path, repeat=1)] == names[:2]
    assert not file.found(tmp_path, repeat=2)


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(content: object, out: Any) -> None:
        out.write(b"x" * 1000)
        raise OSError(28, "No space left on device")

    before = file.write(tmp_path, seal(step=1), CONTENT)
    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space left"):
        file.write(tmp_path, seal(step=2), CONTENT)
    assert list(file.place(tmp_path, repeat=1, step=2).iterdir()) == []
    assert file.seals(before)


def test_a_small_file_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "finished.json"
    for content in ({"a": 1}, {"b": 2}):
        file.write_whole(path, msgspec.json.encode(content))
        assert msgspec.json.decode(path.read_bytes()) == content
    assert list(tmp_path.iterdir()) == [path]
