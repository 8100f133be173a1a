# SPDX-License-Identifier: Apache-2.0
"""What is kept is listed and cleared, and what is being built is left alone."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from joulelab.data import cache, cache_folder, detection, detection_cache
from joulelab.data.tiling import Cut
from joulelab.errors import InputError
from tests.data import detection_parts


@pytest.fixture
def folder(weird_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two files, both cached beside it, one of them changed since, and something broken."""
    monkeypatch.delenv(cache_folder.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(weird_tmp_path / "xdg"))
    for name in ("a.csv", "b.csv"):
        (weird_tmp_path / name).write_bytes(b"1,2\n")
        cache.read(weird_tmp_path / name)
    (weird_tmp_path / "b.csv").write_bytes(b"1,2\n3,4\n")
    (weird_tmp_path / cache_folder.BESIDE / "c.npy").write_bytes(b"junk")
    return weird_tmp_path


def test_entries_say_their_state(folder: Path) -> None:
    found = list(cache_folder.entries(cache_folder.below([folder])))
    assert [(entry.source.rpartition("/")[2], entry.state) for entry in found] == [
        ("a.csv", "current"),
        ("b.csv", "outdated"),
        ("", "broken"),
    ]
    (folder / "a.csv").unlink()
    assert next(cache_folder.entries(cache_folder.below([folder]))).state == "outdated"


def test_clear_takes_all_but_what_is_being_built(folder: Path) -> None:
    here = folder / cache_folder.BESIDE
    (busy, idle) = sorted(here.glob("*.lock"))
    for lock in (busy, idle):
        (here / f"{lock.stem}.1.part").write_bytes(b"x" * 10)
    with busy.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        files, size = cache_folder.clear(cache_folder.below([folder]))
    assert files == 4
    assert size > 14
    assert sorted(path.name for path in here.iterdir()) == [f"{busy.stem}.1.part", busy.name]
    assert cache.read(folder / "a.csv").tolist() == [[1, 2]]


def test_a_folder_that_cannot_be_written_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *, missing_ok: bool) -> None:
        raise OSError(30, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(InputError, match=r"cannot be removed: Read-only file system(.|\n)*as its owner"):
        cache_folder.clear([folder / cache_folder.BESIDE])


def test_tiles_of_pictures_are_listed_and_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cache_folder.VARIABLE, raising=False)
    images = {"5.tif": (64, 64), "7.tif": (64, 64)}
    detection_parts.xview(tmp_path, [("10,10,30,30", 73, name) for name in images], images=images)
    detection.read(tmp_path, layout="xview", cut=Cut(side=64, tiled=True))
    folders = cache_folder.below([tmp_path])

    def state() -> list[tuple[str, str]]:
        return [(entry.source, entry.state) for entry in cache_folder.entries(folders)]

    assert state() == [(str(tmp_path), "current")]
    (entry,) = cache_folder.entries(folders)
    assert entry.size > 2 * 3 * 64 * 64
    (tmp_path / "train_images" / "5.tif").touch()
    assert state() == [(str(tmp_path), "outdated")]
    (tmp_path / "train_images" / "5.tif").unlink()
    assert state() == [(str(tmp_path), "outdated")]
    index = entry.path / "index.json"
    index.write_text(index.read_text()[:100])
    assert state() == [("", "broken")]
    with detection_cache.lock_of(entry.path).open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert cache_folder.clear(folders) == (0, 0)
    files, size = cache_folder.clear(folders)
    assert files == 3
    assert size > 2 * 3 * 64 * 64
    assert list(entry.path.parent.iterdir()) == []


def test_the_own_folder_is_found_where_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache_folder.VARIABLE, str(folder / "mine"))
    cache.read(folder / "a.csv")
    assert cache_folder.own() == folder / "mine"
    assert cache_folder.below([cache_folder.own()]) == [folder / "mine"]
    assert len(list(cache_folder.entries([cache_folder.own()]))) == 1
