# SPDX-License-Identifier: Apache-2.0
"""Files with headers and text: every number as Python reads it, every word kept, every fault named."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joulelab.data import labelled_csv
from joulelab.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.data.labelled import Words

NUMBERS = 80  # enough that a comma separated file with its text in front goes line by line


def words(column: Words) -> list[str]:
    return [column.at(row) for row in range(len(column.codes))]


def wide(path: Path, rows: list[list[str]], *, end: str = "\n", last: str = "\n") -> Path:
    header = ["id", "kind", *(f"g{k}" for k in range(NUMBERS))]
    path.write_bytes((end.join(",".join(row) for row in [header, *rows]) + last).encode())
    return path


CELLS = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-1000, 1000).map(str),
    st.sampled_from(
        ["0.0", "-0.0", "1e-3", "12345678901234567890", "0.1234567890123456789", "", "NA", " 7 ", '"8"']
    ),
)


def expected(cell: str) -> np.float32:
    inner = cell.strip().strip('"')
    with np.errstate(over="ignore", under="ignore"):
        return np.float32("nan") if inner in ("", "NA", "na", "-") else np.float32(float(inner))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(CELLS, min_size=NUMBERS, max_size=NUMBERS), min_size=1, max_size=6), st.integers(1, 3)
)
def test_both_ways_read_what_python_reads(tmp_path: Path, cells: list[list[str]], threads: int) -> None:
    path = wide(tmp_path / "a.csv", [[f"id{k}", f"kind{k % 2}", *row] for k, row in enumerate(cells)])
    truth = np.array([[expected(cell) for cell in row] for row in cells], np.float32)
    by_line = labelled_csv.read(path, text=("id", "kind"), threads=threads)
    by_cell = labelled_csv.read(
        path, text=("kind",), numbers=[f"g{k}" for k in range(NUMBERS)], threads=threads
    )
    for read in (by_line, by_cell):
        assert read.values.tobytes() == truth.tobytes() or np.array_equal(read.values, truth, equal_nan=True)
        assert np.array_equal(np.signbit(read.values[truth == 0]), np.signbit(truth[truth == 0]))
        assert words(read.texts["kind"]) == [f"kind{k % 2}" for k in range(len(cells))]
    assert words(by_line.texts["id"]) == [f"id{k}" for k in range(len(cells))]
    assert by_line.names == tuple(f"g{k}" for k in range(NUMBERS))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n", "\n\n"])
def test_line_ends_of_every_kind(tmp_path: Path, end: str, last: str) -> None:
    row = ["a", "X", *["1.5"] * NUMBERS]
    path = wide(tmp_path / "a.csv", [row, row], end=end, last=last)
    for text in (("id", "kind"), ("kind",)):
        numbers = [f"g{k}" for k in range(NUMBERS)]
        read = labelled_csv.read(path, text=text, numbers=numbers)
        assert read.values.tolist() == [[1.5] * NUMBERS] * 2
        assert words(read.texts["kind"]) == ["X", "X"]


def test_columns_in_any_order_others_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('x\tname\ty\tnote\n1\tA,1\t2\t"t\tu"\n\tB\tna\t\n-\tA,1\t4e1\tz\n')
    read = labelled_csv.read(path, text=("name",), numbers=("y", "x"), separator="\t")
    assert np.array_equal(
        read.values, np.array([[2, 1], [np.nan, np.nan], [40, np.nan]], np.float32), equal_nan=True
    )
    assert words(read.texts["name"]) == ["A,1", "B", "A,1"]
    assert read.column("x")[0] == 1.0


def test_a_comma_inside_a_cell_is_no_separator_there(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("name\tx\ty\nA\t1,5\t2\n")
    with pytest.raises(InputError, match="row 2, column 2: '1,5' is not a number"):
        labelled_csv.read(path, text=("name",), separator="\t")


@pytest.mark.parametrize("cell", ['"1"2', '"1', '"1"2"', '"1" x'])
def test_a_number_with_half_its_text_in_quotes_is_no_number(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"name,x\na,{cell}\n")
    with pytest.raises(InputError, match=r"row 2, column 2: .* is not a number"):
        labelled_csv.read(path, text=("name",))


def test_a_quote_inside_a_text_cuts_nothing_off(tmp_path: Path) -> None:
    cells = ['"a"', '"a""b"', '"a""c"', '"d" ', "e"]
    want = ["a", '"a""b"', '"a""c"', "d", "e"]
    by_line = wide(tmp_path / "a.csv", [[cell, "X", *["1"] * NUMBERS] for cell in cells])
    assert words(labelled_csv.read(by_line, text=("id", "kind")).texts["id"]) == want
    by_cell = tmp_path / "b.csv"
    by_cell.write_text("x,id\n" + "".join(f"1,{cell}\r\n" for cell in cells))
    assert words(labelled_csv.read(by_cell, text=("id",)).texts["id"]) == want


def test_more_words_than_the_table_has_room_for(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    names = [f"w{k * 7919 % 5000}" for k in range(9000)]
    path.write_text("name,x\n" + "".join(f"{name},{k}\n" for k, name in enumerate(names)))
    for threads in (1, 3):
        read = labelled_csv.read(path, text=("name",), threads=threads)
        assert words(read.texts["name"]) == names
        assert len(set(read.texts["name"].words)) == len(read.texts["name"].words)
        assert read.values[:, 0].tolist() == list(range(9000))


def test_blank_lines_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("name,x\n" + "".join(f"n{k},{k}\n\n" for k in range(500)))
    read = labelled_csv.read(path, text=("name",), threads=3)
    assert read.values[:, 0].tolist() == list(range(500))
    assert words(read.texts["name"]) == [f"n{k}" for k in range(500)]


def test_words_sort(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("name,x\nb,1\na,2\nb,3\n")
    column = labelled_csv.read(path, text=("name",)).texts["name"].sorted()
    assert column.words == ("a", "b")
    assert column.codes.tolist() == [1, 0, 1]


def test_gzip_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"name,x\nb,1.25\n"))
    assert labelled_csv.read(path, text=("name",)).values.tolist() == [[1.25]]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="broken gzip"):
        labelled_csv.read(path, text=("name",))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("name,x\n", "a header and no rows"),
        ("name,x\n\n\n", "a header and no rows"),
        ("nom,x\na,1\n", "no column name; it has: nom, x"),
        ("name,x\na,1\nb\n", "row 3: it has 1 cells where the header has 2"),
        ("name,x\na,1\nb,2,3\n", "row 3: it has 3 cells where the header has 2"),
        ("name,x\na,1\nb,1.2.3\n", "row 3, column 2: '1.2.3' is not a number"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=said):
        labelled_csv.read(path, text=("name",))


def test_faults_in_long_rows_are_named(tmp_path: Path) -> None:
    good = ["a", "X", *["1"] * NUMBERS]
    for row, said in (
        (good[:-1], f"row 3: it has {NUMBERS + 1} cells where the header has {NUMBERS + 2}"),
        ([*good, "1"], f"row 3: it has {NUMBERS + 3} cells where the header has {NUMBERS + 2}"),
        (["a"], "row 3: it has 1 cells"),
        ([*good[:-1], "x"], f"row 3, column {NUMBERS + 2}: 'x' is not a number"),
    ):
        with pytest.raises(InputError, match=said):
            labelled_csv.read(wide(tmp_path / "a.csv", [good, row, good]), text=("id", "kind"))


def test_a_folder_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        labelled_csv.read(tmp_path, text=())
    with pytest.raises(InputError, match="No such file"):
        labelled_csv.read(tmp_path / "a.csv", text=())
