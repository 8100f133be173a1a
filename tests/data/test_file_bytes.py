# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to a file while it is read: all of it or an error in words, never half, never a crash."""

from __future__ import annotations

import errno
import gzip
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from joulelab.data import file_bytes, labelled_csv, wide_csv
from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS, COLUMNS = 300, 70


def plain(path: Path) -> Any:
    return wide_csv.read(path, threads=2)


def wide(path: Path) -> Any:
    return labelled_csv.read(path, threads=2).values


def table(path: Path) -> Any:
    return labelled_csv.read(path, text=("c1",), threads=2).values


def content(*, header: bool) -> bytes:
    rows = [b",".join(b"%d.25" % ((row * column) % 977) for column in range(COLUMNS)) for row in range(ROWS)]
    head = [b",".join(b"c%d" % column for column in range(COLUMNS))] if header else []
    return b"\n".join([*head, *rows]) + b"\n"


def shrink(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def vanish(path: Path) -> None:
    os.truncate(path, 0)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"1,2\n")


def more_rows(path: Path) -> None:
    """The same size, and a newline where many a number was."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(b"1\n" * (size // 2))


CHANGES = [shrink, vanish, grow, more_rows]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("read", [plain, wide, table], ids=lambda read: read.__name__)
def test_a_file_that_changes_between_counting_and_parsing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kernel: str,
    read: Callable[[Path], Any],
    change: Callable[[Path], None],
) -> None:
    module: Any = wide_csv if read is plain else labelled_csv
    path = tmp_path / "table.csv"
    path.write_bytes(content(header=module is labelled_csv))
    os.utime(path, ns=(1, 1))  # a clock of the file system that ticks too slowly would hide the change
    assert read(path).shape[0] == ROWS
    real = module.cut

    def cut(*given: Any, **options: Any) -> Any:
        runs = real(*given, **options)
        change(path)
        return runs

    monkeypatch.setattr(module, "cut", cut)
    with pytest.raises(InputError, match="written to while it was read"):
        read(path)


def test_a_table_that_gets_many_short_rows_after_they_were_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b"name,x\n" + b"a,0.00000000000000000000000000000001\n" * 1000)
    os.utime(path, ns=(1, 1))
    module: Any = labelled_csv
    real = module.cut

    def cut(*given: Any, **options: Any) -> Any:
        runs = real(*given, **options)
        with path.open("r+b") as file:
            file.seek(len("name,x\n"))
            file.write(b"a,1\n" * 9000)
        return runs

    monkeypatch.setattr(module, "cut", cut)
    with pytest.raises(InputError, match="written to while it was read"):
        labelled_csv.read(path, text=("name",), threads=1)


def test_table_rows_beyond_those_counted_are_not_written() -> None:
    from joulelab.data import table_kernel

    content = np.frombuffer(b"a,1\n" * 4, np.uint8)
    memory, codes = np.full((4, 1), -7, np.float32), np.full((4, 1), -7, np.int32)
    kinds, place = np.array([table_kernel.TEXT, table_kernel.NUMBER]), np.zeros(2, np.int64)
    words, slots = np.empty((1, 8, 2), np.int64), np.full((1, 16), -1, np.int64)
    counts, backlog = np.zeros(1, np.int64), np.empty((8, 5), np.int64)
    state = table_kernel.scan(
        content, (0, 16), 44, kinds, place, memory[:2], codes[:2], words, slots, counts, backlog, (0, 0)
    )
    assert state[0] == table_kernel.MORE_ROWS
    assert memory.ravel().tolist() == [1, 1, -7, -7]
    assert codes.ravel().tolist() == [0, 0, -7, -7]


@pytest.mark.parametrize("lead", [b"", b"a,b\n1,2\n"], ids=["first", "last"])
def test_what_has_no_end_of_line_is_refused_before_it_fills_the_memory(tmp_path: Path, lead: bytes) -> None:
    path = tmp_path / "no.csv"
    path.write_bytes(lead)
    os.truncate(path, file_bytes.LONGEST + (1 << 20))  # zeros that take no room on the disk
    for read in (plain, wide):
        with pytest.raises(InputError, match="line of more than 64 MiB"):
            read(path)


def test_cells_beyond_the_rows_counted_are_not_written(kernel: str) -> None:
    from joulelab.data import csv_native

    parser: Any = csv_native.kernel(kernel)
    memory = np.full((4, 2), -7, np.float32)
    data = np.frombuffer(b"1,2\n3,4\n5,6\n7,8\n", np.uint8)
    backlog = np.empty((4, 5), np.int64)
    state = parser.parse_rows(data, 0, len(data), memory[:2], 0, 0, 0, backlog)
    assert state[0] == parser.MORE_ROWS
    assert memory.tolist() == [[1, 2], [3, 4], [-7, -7], [-7, -7]]


def test_gzip_is_read(weird_tmp_path: Path) -> None:
    path = weird_tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(content(header=False)))
    whole = plain(path)
    (weird_tmp_path / "table.csv").write_bytes(content(header=False))
    assert np.array_equal(whole, plain(weird_tmp_path / "table.csv"))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="broken gzip"):
        plain(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b"1\n")
    path.chmod(0)
    with pytest.raises(InputError, match="Permission denied"):
        plain(path)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root may read everything, so the system's answer is put into its mouth.
    def denied(path: Path, flags: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr("joulelab.data.file_bytes.os.open", denied)
    with pytest.raises(InputError, match=r"table\.csv cannot be read: Permission denied"):
        plain(tmp_path / "table.csv")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="no regular file"):
        plain(tmp_path / "pipe.csv")


def test_no_room_to_unpack_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(content(header=False)))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("joulelab.data.file_bytes.shutil.copyfileobj", full)
    with pytest.raises(InputError, match=r"cannot be unpacked in .*No space left(.|\n)*TMPDIR"):
        plain(path)


MEMORY = """
import sys
from pathlib import Path
from joulelab.data import labelled_csv, wide_csv
def peak():
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM")) * 1024
path, threads = Path(sys.argv[1]), int(sys.argv[2])
read = wide_csv.read if "wide" in path.name else lambda p, **o: labelled_csv.read(p, text=("id",), **o).values
small = path.with_name("small-" + path.name)
read(small, threads=1)
before = peak()
found = read(path, threads=threads)
print(peak() - before - found.nbytes)
"""


@pytest.mark.parametrize("name", ["wide.csv", "wide.csv.gz", "table.csv"])
@pytest.mark.parametrize("threads", [1, 4])
def test_memory_is_the_result_and_at_most_64_mb(tmp_path: Path, name: str, threads: int) -> None:
    columns, rows = 4_000, 6_000
    lines = ("id," + ",".join(f"c{k}" for k in range(columns)) + "\n") if name == "table.csv" else ""
    lead = "a," if name == "table.csv" else ""
    row = lead + ",".join(str(k % 10) for k in range(columns)) + "\n"
    pack = gzip.compress if name.endswith(".gz") else bytes
    (tmp_path / f"small-{name}").write_bytes(pack((lines + row).encode()))
    (tmp_path / name).write_bytes(pack((lines + row * rows).encode()))
    command = [sys.executable, "-c", MEMORY, str(tmp_path / name), str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(done.stdout) < 64e6, "of 48 MB of text and 96 MB of result"


def test_a_line_longer_than_a_step(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    line = b"1," * 50_000 + b"2\n"
    path.write_bytes(b"\xef\xbb\xbf" + line + b"3")
    with file_bytes.opened(path) as source:
        assert source.text_begins() == 3
        assert source.line(3) == line
        assert source.line(3 + len(line)) == b"3"
        assert source.line(4 + len(line)) == b""
