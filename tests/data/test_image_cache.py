# SPDX-License-Identifier: Apache-2.0
"""Images are decoded once: whoever was stopped goes on, what was damaged is found, what is broken is told."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from joulelab.data import cache_folder, image_cache, image_decode
from joulelab.data.image_cache import Images, open_images
from joulelab.data.image_decode import PIXELS, PLAN, mark, read_plan, write_plan
from joulelab.errors import InputError
from tests.conftest import ROOT
from tests.data import image_parts


@pytest.fixture(autouse=True)
def _own_place(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cache_folder.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("xdg")))


@pytest.fixture
def root(weird_tmp_path: Path) -> Path:
    return image_parts.folder(weird_tmp_path / "train")


def opened(root: Path, *, told: list[tuple[int, int]] | None = None, workers: int = 1) -> Images:
    progress = None if told is None else lambda done, of: told.append((done, of))
    return open_images(root, size=8, workers=workers, progress=progress)


def entry(root: Path) -> Path:
    (found,) = (root / cache_folder.BESIDE).iterdir()
    return found


def marks(folder: Path) -> dict[str, int]:
    """When each piece was done."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("0*.json")}


def test_pixels_labels_and_classes(root: Path) -> None:
    found = opened(root)
    assert np.array_equal(found.pixels, image_parts.pixels(6))
    assert found.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.rows.tolist() == list(range(6))
    assert found.classes == ("class 0", "class 1")
    assert (found.skipped, found.note) == ({}, "")


def test_it_is_decoded_once_and_progress_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    opened(root, told=told, workers=3)
    assert told[0] == (0, 6)
    assert told[-1] == (6, 6)
    assert told == sorted(told)
    again: list[tuple[int, int]] = []
    monkeypatch.setattr(subprocess, "Popen", pytest.fail)
    assert np.array_equal(opened(root, told=again).pixels, image_parts.pixels(6))
    assert again == []


def test_who_writes_to_the_table_writes_to_his_own_and_needs_no_memory_for_it(root: Path) -> None:
    found = opened(root)
    found.pixels[0] = 0
    assert np.array_equal(opened(root).pixels, image_parts.pixels(6))
    # A mapping that counts as memory ("ac") is refused where the file is larger than that.
    flags = image_parts.flags_of(entry(root) / PIXELS)
    assert flags
    assert all("ac" not in each for each in flags)


def test_each_size_has_its_own(root: Path) -> None:
    assert opened(root).pixels.shape == (6, 8, 8, 3)
    assert open_images(root, size=4, workers=1).pixels.shape == (6, 4, 4, 3)
    assert len(list((root / cache_folder.BESIDE).iterdir())) == 2


@pytest.mark.parametrize("change", ["touched", "added", "removed"])
def test_a_folder_that_changed_is_decoded_anew(root: Path, change: str) -> None:
    opened(root)
    one = root / "class 1" / "0.png"
    if change == "touched":
        Image.fromarray(image_parts.noise(8, seed=99)).save(one)
        os.utime(one, ns=(0, 12345))
        assert np.array_equal(opened(root).pixels[3], image_parts.noise(8, seed=99))
    elif change == "added":
        Image.fromarray(image_parts.noise(8, seed=99)).save(root / "class 0" / "3.png")
        found = opened(root)
        assert np.array_equal(found.pixels[3], image_parts.noise(8, seed=99))
        assert found.labels.tolist() == [0, 0, 0, 0, 1, 1, 1]
    else:
        one.unlink()
        assert np.array_equal(opened(root).pixels, np.delete(image_parts.pixels(6), 3, 0))


def test_who_was_stopped_goes_on_and_decodes_nothing_twice(root: Path) -> None:
    opened(root)
    folder = entry(root)
    first = marks(folder)
    assert len(first) == 6
    for number in (1, 4):
        mark(folder, number).unlink()
    told: list[tuple[int, int]] = []
    assert np.array_equal(opened(root, told=told).pixels, image_parts.pixels(6))
    assert told[0] == (4, 6)
    again = marks(folder)
    assert {name for name in first if first[name] != again[name]} == {"000001.json", "000004.json"}


def test_a_decoder_that_was_killed_leaves_what_it_had_done(
    root: Path,
) -> None:
    opened(root)
    folder = entry(root)
    for path in folder.glob("0*.json"):
        path.unlink()
    # Its third image is a pipe that nobody writes to: there it is when it is killed.
    stuck = root / "class 0" / "2.png"
    content, status = stuck.read_bytes(), stuck.stat()
    stuck.unlink()
    os.mkfifo(stuck)
    command = [sys.executable, "-m", image_decode.__name__, str(folder), "0", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"1\n", b"1\n"]
        process.kill()
    stuck.unlink()
    stuck.write_bytes(content)
    os.utime(stuck, ns=(status.st_atime_ns, status.st_mtime_ns))
    before = marks(folder)
    assert sorted(before) == ["000000.json", "000001.json"]
    told: list[tuple[int, int]] = []
    assert np.array_equal(opened(root, told=told).pixels, image_parts.pixels(6))
    assert told[0] == (2, 6)
    assert before.items() <= marks(folder).items()


def test_a_decoder_that_fails_is_an_error_that_can_be_resumed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = subprocess.Popen

    class Dying(real):  # type: ignore[misc, valid-type]
        def __init__(self, command: list[str], **more: object) -> None:
            super().__init__([sys.executable, "-c", "raise SystemExit(3)"], **more)

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", Dying)
        with pytest.raises(InputError, match=r"decoding stopped \(3, 3 are(.|\n)*goes on where"):
            opened(root, workers=2)
    assert np.array_equal(opened(root).pixels, image_parts.pixels(6))


def test_who_is_stopped_while_waiting_ends_his_decoders(root: Path) -> None:
    def stopped(done: int, of: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_images(root, size=8, workers=2, progress=stopped)
    # That no process is left is looked at after every test.
    assert np.array_equal(opened(root).pixels, image_parts.pixels(6))


def test_damaged_bytes_are_noticed_and_only_they_are_made_again(root: Path) -> None:
    opened(root)
    folder = entry(root)
    before = marks(folder)
    each = 8 * 8 * 3
    with (folder / PIXELS).open("r+b") as file:
        file.seek(2 * each + 17)
        (byte,) = file.read(1)
        file.seek(2 * each + 17)
        file.write(bytes([byte ^ 1]))
    assert np.array_equal(opened(root).pixels, image_parts.pixels(6))
    after = marks(folder)
    assert {name for name in before if before[name] != after[name]} == {"000002.json"}


@pytest.mark.parametrize("name", [PIXELS, "000003.json", PLAN])
@pytest.mark.parametrize("left", [None, 0, 20])
def test_a_file_that_is_gone_or_torn(root: Path, name: str, left: int | None) -> None:
    opened(root)
    file = entry(root) / name
    if left is None:
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:left])
    found = opened(root)
    assert np.array_equal(found.pixels, image_parts.pixels(6))
    assert found.skipped == {}


def test_a_large_cache_is_not_read_whenever_it_is_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(root)
    (entry(root) / PIXELS).write_bytes(bytes(6 * 8 * 8 * 3))
    monkeypatch.setattr(image_cache, "CHECKED_BYTES", 100)
    assert not opened(root).pixels.any()


def test_a_corrupt_image_is_named_counted_and_left_out(root: Path) -> None:
    whole = (root / "class 0" / "1.png").read_bytes()
    (root / "class 0" / "1.png").write_bytes(whole[: len(whole) // 2])
    (root / "class 1" / "3.jpg").write_bytes(b"")
    for found in (opened(root), opened(root)):
        assert list(found.skipped) == ["class 0/1.png", "class 1/3.jpg"]
        assert found.rows.tolist() == [0, 2, 3, 4, 5]
        assert np.array_equal(found.pixels[found.rows], np.delete(image_parts.pixels(6), 1, 0))
        assert found.note.startswith(
            f"{root}: 2 of 7 images cannot be decoded and are left out: class 0/1.png ("
        )
        assert "class 1/3.jpg (UnidentifiedImageError" in found.note


def test_too_many_of_them_are_an_error_and_so_is_a_class_without_any(root: Path) -> None:
    for k in range(3):
        (root / "class 1" / f"{k}.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"no image of class class 1 can be decoded.*3 of 6"):
        opened(root)
    (root / "class 0" / "0.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"4 of 6 images cannot be decoded(.|\n)*at most 3 are passed over"):
        opened(root)


def test_many_are_counted_and_some_are_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_cache, "SHARE", 1.0)
    for k in range(9):
        (root / "class 0" / f"x{k}.png").write_bytes(b"no image")
    assert opened(root).note.count("UnidentifiedImageError") == image_cache.NAMED
    assert opened(root).note.endswith("; and 4 more")


def refuse(monkeypatch: pytest.MonkeyPatch, *refused: Path) -> None:
    real = cache_folder.writable

    def writable(folder: Path) -> bool:
        return not any(folder.is_relative_to(one) for one in refused) and real(folder)

    monkeypatch.setattr(cache_folder, "writable", writable)


def test_a_folder_that_cannot_be_written_is_kept_in_the_users_own(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, root)
    assert np.array_equal(opened(root).pixels, image_parts.pixels(6))
    assert not (root / cache_folder.BESIDE).exists()
    (kept,) = cache_folder.own().iterdir()
    assert kept.suffix == image_decode.SUFFIX
    refuse(monkeypatch, root, cache_folder.own())
    assert np.array_equal(opened(root).pixels, image_parts.pixels(6)), "what is there needs no writing"
    kept.rename(kept.with_name("elsewhere"))
    with pytest.raises(InputError, match=rf"can be written(.|\n)*{cache_folder.VARIABLE}"):
        opened(root)


def test_what_lies_where_nobody_may_write_is_taken_without_a_lock(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(root)
    lock = entry(root) / "lock"
    lock.unlink()
    monkeypatch.setattr(image_cache, "_locked", pytest.fail)
    assert np.array_equal(opened(root).pixels, image_parts.pixels(6))
    assert not lock.exists()


def test_a_disk_without_room_is_told_before_it_is_full(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        free = 100

    monkeypatch.setattr("shutil.disk_usage", lambda folder: Full)
    with pytest.raises(InputError, match=rf"GB are free(.|\n)*{cache_folder.VARIABLE}"):
        opened(root)


def test_two_processes_at_once_decode_once(root: Path) -> None:
    code = (
        "import sys, pathlib\n"
        "from joulelab.data.image_cache import open_images\n"
        "told = []\n"
        "root = pathlib.Path(sys.argv[1])\n"
        "found = open_images(root, size=8, workers=2, progress=lambda *a: told.append(a))\n"
        "print(len(told) > 0, int(found.pixels.sum()))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", code, str(root)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    said = sorted(process.communicate(timeout=50)[0].split() for process in both)
    total = str(int(image_parts.pixels(6).sum(dtype=np.int64)))
    assert [process.returncode for process in both] == [0, 0]
    assert said in ([["False", total], ["True", total]], [["False", total], ["False", total]])


def test_who_comes_second_waits_and_finds_it_done(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(root)
    folder = entry(root)
    hidden = mark(folder, 5).rename(folder / "hidden")
    found: list[Images] = []
    with (folder / "lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        second = threading.Thread(target=lambda: found.append(opened(root)))
        second.start()
        second.join(0.2)
        assert second.is_alive()
        hidden.rename(mark(folder, 5))
        monkeypatch.setattr(image_cache, "_build", pytest.fail)
    second.join(20)
    assert np.array_equal(found[0].pixels, image_parts.pixels(6))


def test_a_plan_says_of_what_and_it_is_listed_and_cleared(root: Path) -> None:
    opened(root)
    folder = entry(root)
    assert read_plan(folder).files[3] == "class 1/0.png"
    places = cache_folder.below([root])
    (listed,) = cache_folder.entries(places)
    assert (listed.path, listed.source, listed.state) == (folder, str(root.resolve()), "current")
    assert listed.size > 6 * 8 * 8 * 3
    with (folder / "lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert cache_folder.clear(places) == (0, 0), "while it is made it is left alone"
    write_plan(folder, read_plan(folder))
    files, size = cache_folder.clear(places)
    assert files == 2 + 6
    assert size == listed.size
    assert not folder.exists()


def test_it_says_what_is_missing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"Pillow(.|\n)*joulelab\[vision\]"):
        opened(root)
