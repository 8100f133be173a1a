# SPDX-License-Identifier: Apache-2.0
"""The second reading is a mapping of what the first one made, and never of anything else."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from joulelab.data import cache, cache_file, cache_folder, labelled_csv, wide_csv
from joulelab.data.labelled import Labelled
from joulelab.errors import InputError


def is_mapped(array: Any) -> bool:
    """Whether the values lie in a file, and not in memory of the array's own."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array.obj if isinstance(array, memoryview) else array, mmap.mmap)


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own cache folder, inside the test's."""
    monkeypatch.delenv(cache_folder.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "joulelab" / "tables"


@pytest.fixture
def csv(weird_tmp_path: Path) -> Path:
    path = weird_tmp_path / "a table.csv"
    path.write_bytes(b"1,2.5\n3,-4\n")
    return path


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Which files were parsed, in order."""
    seen: list[Path] = []
    for module in (wide_csv, labelled_csv):

        def read(path: Path, real: Any = module.read, **options: Any) -> Any:
            seen.append(path)
            return real(path, **options)

        monkeypatch.setattr(module, "read", read)
    return seen


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.npy"))


def leftovers(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.part"))


def test_parsed_once_then_mapped(csv: Path, parses: list[Path]) -> None:
    for _ in range(3):
        got = cache.read(csv, threads=1)
        assert got.tolist() == [[1, 2.5], [3, -4]]
        assert got.dtype == np.float32
        assert got.flags.c_contiguous
        assert is_mapped(got)
        got[0, 0] = 99  # stays in this process, and in this array
    assert parses == [csv]
    (entry,) = entries(csv.parent / cache_folder.BESIDE)
    assert np.load(entry).tolist() == [[1, 2.5], [3, -4]]
    assert leftovers(entry.parent) == []


def test_a_changed_file_is_noticed(csv: Path, parses: list[Path]) -> None:
    cache.read(csv)
    csv.write_bytes(b"9,2.5\n3,-4\n")  # the same size, as soon as can be
    assert cache.read(csv)[0, 0] == 9
    assert len(parses) == 2
    assert len(entries(csv.parent / cache_folder.BESIDE)) == 1  # what is outdated is gone


def test_a_newer_parser_takes_nothing_from_an_older_one(
    csv: Path, parses: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.read(csv)
    monkeypatch.setattr(cache, "VERSION", cache.VERSION + 1)
    cache.read(csv)
    assert len(parses) == 2


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "cut by one": lambda content: content[:-1],
    "longer": lambda content: content + b"\0",
    "zeros": lambda content: bytes(len(content)),
    "other text": lambda content: content.replace(b'"shape":[2,2]', b'"shape":[2,9]'),
    "another file's": lambda content: content,
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_entry_is_built_anew(csv: Path, parses: list[Path], how: str) -> None:
    want = cache.read(csv).tolist()
    (entry,) = entries(csv.parent / cache_folder.BESIDE)
    if how == "another file's":
        other = csv.with_name("other.csv")
        other.write_bytes(b"7,7\n")
        cache.read(other)
        (theirs,) = set(entries(entry.parent)) - {entry}
        entry.write_bytes(theirs.read_bytes())
        parses.remove(other)
    else:
        entry.write_bytes(BROKEN[how](entry.read_bytes()))
    assert cache.read(csv).tolist() == want
    assert cache.read(csv).tolist() == want
    assert len(parses) == 2


def test_labelled_tables_keep_names_and_words(weird_tmp_path: Path, parses: list[Path]) -> None:
    path = weird_tmp_path / "labels.csv"
    path.write_text("name,x,y,größe\nB,1,na,3\nA,4,5,6\nB,7,8,9\n", encoding="utf-8")
    for numbers in (None, ["größe"], []):
        first = cache.read_labelled(path, text=("name",), numbers=numbers, threads=1)
        again = cache.read_labelled(path, text=("name",), numbers=numbers)
        want = labelled_csv.read(path, text=("name",), numbers=numbers)
        for got in (first, again):
            assert got.names == want.names
            assert np.array_equal(got.values, want.values, equal_nan=True)
            assert got.texts["name"].words == ("B", "A")
            assert got.texts["name"].codes.tolist() == [0, 1, 0]
    assert len(parses) == 6  # of each question: one parsed for the cache, and one here


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_only_can_be_read_by_its_permissions(csv: Path, own: Path) -> None:
    csv.parent.chmod(0o555)
    try:
        cache.read(csv)
    finally:
        csv.parent.chmod(0o755)
    assert len(entries(own)) == 1


def refuse_beside(monkeypatch: pytest.MonkeyPatch, *refused: Path) -> None:
    real = cache_folder.writable
    monkeypatch.setattr(cache_folder, "writable", lambda folder: folder not in refused and real(folder))


def test_what_cannot_be_kept_beside_the_file_is_kept_in_the_own_folder(
    csv: Path, own: Path, parses: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_beside(monkeypatch, csv.parent / cache_folder.BESIDE)
    cache.read(csv)
    assert is_mapped(cache.read(csv))
    assert len(parses) == 1
    assert len(entries(own)) == 1


def test_nowhere_to_keep_it_is_said_and_no_failure(
    csv: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_beside(monkeypatch, csv.parent / cache_folder.BESIDE, own)
    with pytest.warns(RuntimeWarning, match="not kept for the next time.*JOULELAB_CACHE"):
        assert cache.read(csv).shape == (2, 2)


def test_a_full_disk_is_said_and_no_failure(csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        assert cache.read(csv).shape == (2, 2)
    assert entries(csv.parent / cache_folder.BESIDE) == []
    assert leftovers(csv.parent / cache_folder.BESIDE) == []


def test_the_variable_names_the_folder(csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache_folder.VARIABLE, str(tmp_path / "mine"))
    cache.read(csv)
    assert len(entries(tmp_path / "mine")) == 1
    assert not (csv.parent / cache_folder.BESIDE).exists()


def test_without_links_the_file_is_moved(csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*names: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert is_mapped(cache.read(csv))
    assert leftovers(csv.parent / cache_folder.BESIDE) == []


def test_a_file_changed_while_it_is_parsed_is_not_kept(csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = wide_csv.read

    def slow(path: Path, **options: Any) -> Any:
        table = real(path, **options)
        path.write_bytes(b"5,6\n")
        return table

    monkeypatch.setattr(wide_csv, "read", slow)
    with pytest.raises(InputError, match="written to while it was read"):
        cache.read(csv)
    assert entries(csv.parent / cache_folder.BESIDE) == []


def test_what_a_killed_builder_left_is_removed_by_a_later_one(csv: Path) -> None:
    cache.read(csv)
    (entry,) = entries(csv.parent / cache_folder.BESIDE)
    where = entry.name.split(".")[-3]
    old, new, other = (entry.with_name(f"{name}.part") for name in (f"{where}.old", f"{where}.new", "x.old"))
    for part in (old, new, other):
        part.write_bytes(b"half")
    for part in (old, other):
        os.utime(part, (1, 1))
    entry.unlink()
    cache.read(csv)
    # One may be being written at this moment, and one is of another table.
    assert leftovers(entry.parent) == sorted([new, other])


def test_what_the_parser_refuses_is_refused_and_not_kept(csv: Path) -> None:
    csv.write_bytes(b"1,x\n")
    for _ in range(2):
        with pytest.raises(InputError, match="'x' is not a number"):
            cache.read(csv)
    assert entries(csv.parent / cache_folder.BESIDE) == []
    with pytest.raises(InputError, match="No such file"):
        cache.read(csv.parent / "gone.csv")


READER = """
import sys
from collections.abc import Callable
from pathlib import Path
from joulelab.data import cache, wide_csv
real = wide_csv.read
def counted(path, **options):
    with open(sys.argv[2], "a") as file:
        file.write("parsed\\n")
    return real(path, **options)
wide_csv.read = counted
sys.stdin.read()  # until all have started
print(float(cache.read(Path(sys.argv[1]), threads=1).sum()))
"""


def test_many_processes_at_once_build_once(tmp_path: Path) -> None:
    csv, log = tmp_path / "table.csv", tmp_path / "log"
    csv.write_bytes(b"".join(b"%d,1\n" % k for k in range(20_000)))
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(csv), str(log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for reader in readers:
        assert reader.stdin is not None
        reader.stdin.close()
        reader.stdin = None
    sums = {float(reader.communicate(timeout=50)[0]) for reader in readers}
    assert len(sums) == 1
    assert log.read_text().splitlines() == ["parsed"]
    assert len(entries(tmp_path / cache_folder.BESIDE)) == 1


def test_an_entry_says_what_it_is_made_of(csv: Path) -> None:
    cache.read(csv)
    (entry,) = entries(csv.parent / cache_folder.BESIDE)
    key = cache_file.made_of(entry)
    assert key is not None
    assert (key["path"], key["size"]) == (str(csv.resolve()), csv.stat().st_size)
    json.dumps(key)
    table = cache_file.read(entry, key=key)
    assert isinstance(table, Labelled)
    assert cache_file.read(entry, key={**key, "size": 0}) is None
