# SPDX-License-Identifier: Apache-2.0
"""Every value that the reader gives is what Python's float() and a cast to float32 give."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from joulelab.data import wide_csv
from joulelab.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def write(folder: Path, content: bytes) -> Path:
    path = folder / "table.csv"
    path.write_bytes(content)
    return path


def expected(text: str) -> np.float32:
    with np.errstate(over="ignore", under="ignore"):
        return np.float32(float(text))


def same(a: Any, b: Any) -> bool:
    """Equal to the bit, the sign of zero included; any NaN equals any other."""
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    nan = np.isnan(a) & np.isnan(b)
    return a.shape == b.shape and bool(((a.view(np.uint32) == b.view(np.uint32)) | nan).all())


nan = float("nan")
CONTENTS = {
    b"1,2\n3,4": [[1, 2], [3, 4]],
    b"1,2\r\n3,4\r\n": [[1, 2], [3, 4]],
    b"1\n2\n3\n": [[1], [2], [3]],
    b"\n\n1,2\n \r\n3,4\n\n": [[1, 2], [3, 4]],
    b"1,\n,2\n": [[1, nan], [nan, 2]],
    b"1,2\n3,": [[1, 2], [3, nan]],
    b"NA, nan,NaN,<NA>,null,\n": [[nan] * 6],
    b'"1.5", -0.0 ,\t+7\t," 2 "\n': [[1.5, -0.0, 7, 2]],
    b"1e400,-1E400,1e-400,-1e-400\n": [[np.inf, -np.inf, 0.0, -0.0]],
    b"inf,-Infinity,INF\n": [[np.inf, -np.inf, np.inf]],
    b".5,5.,+.5e1,-5.E-1,00012\n": [[0.5, 5, 5, -0.5, 12]],
    b"0e99999999999999999999,1e5\r": [[0, 1e5]],
    b"\xef\xbb\xbf1,2\n": [[1, 2]],
    b"123456789012345678901234567890,0.000000000000000000000000000001234567890123456789\n": [
        [123456789012345678901234567890, 1.234567890123456789e-30]
    ],
    # Half-way between two float32 and a hair beside it: the float64 decides, then the tie goes to even.
    b"16777217,16777219,16777217.000000001,16777217.0000000001\n": [
        [float(t) for t in ("16777217", "16777219", "16777217.000000001", "16777217.0000000001")]
    ],
}


@pytest.mark.parametrize("content", CONTENTS, ids=repr)
@pytest.mark.parametrize("threads", [1, 3])
def test_reads(weird_tmp_path: Path, content: bytes, threads: int) -> None:
    with np.errstate(over="ignore"):
        want = np.array(CONTENTS[content], np.float64).astype(np.float32)
    got = wide_csv.read(write(weird_tmp_path, content), threads=threads)
    assert got.dtype == np.float32
    assert got.flags.c_contiguous
    assert same(got, want)


REFUSED = {
    b"1,2.3.4\n": ("row 1, column 2", "'2.3.4'"),
    b"1,2\n\n3,x\n": ("row 3, column 2", "'x'"),
    b"gene,b\n1,2\n": ("row 1, column 1", "header"),
    b"1,2\n3\n": ("row 2, column 1", "1 cells"),
    b"1,2\n3,4,5\n6,7\n": ("row 2, column 3", "'5'"),
    b"1,2\n3,4,": ("row 2, column 3", "3 cells"),
    b'1,2\n"3,4"\n': ("row 2, column 1", "'\"3'"),
    b"1_000\n": ("row 1, column 1", "'1_000'"),
    "\N{ARABIC-INDIC DIGIT FOUR}\n".encode(): ("row 1, column 1", "\N{ARABIC-INDIC DIGIT FOUR}"),
    b"1e\n": ("row 1, column 1", "'1e'"),
    b"1\n-\n": ("row 2, column 1", "'-'"),
    b"1 2\n": ("row 1, column 1", "'1 2'"),
    b"0x10\n": ("row 1, column 1", "'0x10'"),
    b"1\r2\n": ("row 1, column 1", "not a number"),
    b"": ("empty",),
    b" \n\r\n": ("blank lines",),
}


@pytest.mark.parametrize("content", REFUSED, ids=repr)
@pytest.mark.parametrize("threads", [1, 3])
def test_refuses(tmp_path: Path, content: bytes, threads: int) -> None:
    path = write(tmp_path, content)
    with pytest.raises(InputError) as caught:
        wide_csv.read(path, threads=threads)
    assert str(path) in str(caught.value)
    for words in REFUSED[content]:
        assert words in str(caught.value)


def test_says_which_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        wide_csv.read(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match="Is a directory"):
        wide_csv.read(tmp_path)


def test_the_first_error_of_the_file_is_the_one_told(tmp_path: Path) -> None:
    rows = [b"1,2,3"] * 4000
    rows[1000], rows[3000] = b"1,first,3", b"1,second,3"
    with pytest.raises(InputError, match="row 1001, column 2: 'first'"):
        wide_csv.read(write(tmp_path, b"\n".join(rows)), threads=4)


def test_blank_lines_between_the_parts_leave_no_gap(tmp_path: Path) -> None:
    lines = [b"" if k % 3 == 0 else b"%d,%d" % (k, -k) for k in range(3000)]
    want = [[k, -k] for k in range(3000) if k % 3]
    for threads in (1, 2, 5, 8):
        assert same(wide_csv.read(write(tmp_path, b"\n".join(lines)), threads=threads), want)


def test_more_left_over_cells_than_the_backlog_holds(tmp_path: Path) -> None:
    rows = [["NA", '"1"', "2"]] * (wide_csv._BACKLOG + 7)
    content = "\n".join(",".join(row) for row in rows).encode()
    assert same(wide_csv.read(write(tmp_path, content), threads=1), [[nan, 1, 2]] * len(rows))


def awkward_cell(rng: random.Random) -> str:
    """Text of a number, of the kinds on which readers of decimals differ."""
    kind = rng.randrange(7)
    if kind == 0:
        return f"{rng.lognormvariate(0, 10):.12g}"
    if kind == 1:
        return repr(np.frombuffer(rng.randbytes(8), np.float64)[0].item())
    if kind == 2:
        return repr(np.frombuffer(rng.randbytes(4), np.float32)[0].item())
    if kind == 3:  # half-way between two neighbours in float32, exactly or nearly
        bits = rng.randrange(0x7F7FFFFF)
        low, high = np.array([bits, bits + 1], np.uint32).view(np.float32).astype(np.float64)
        middle = (low + high) / 2
        return repr(middle.item()) if rng.random() < 0.5 else f"{middle:.{rng.randrange(8, 60)}e}"
    if kind == 4:
        return f"{rng.randint(-(10**30), 10**30)}.{rng.randrange(10**30)}e{rng.randint(-60, 60)}"
    if kind == 5:
        return f"{'0' * rng.randrange(30)}{rng.randrange(10**20)}{'0' * rng.randrange(30)}"
    return f"{rng.uniform(-1000, 1000):.{rng.randrange(20)}f}"


@pytest.mark.parametrize("seed", range(3))
def test_a_hundred_thousand_awkward_numbers(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rows = [[awkward_cell(rng) for _ in range(50)] for _ in range(700)]
    content = "\n".join(",".join(row) for row in rows).encode()
    want = np.array([[expected(cell) for cell in row] for row in rows])
    for threads in (1, 3):
        assert same(wide_csv.read(write(tmp_path, content), threads=threads), want)


numbers = st.one_of(
    st.floats(width=64).map(repr),
    st.floats(width=32).map(lambda x: f"{x:.9g}"),
    st.integers(-(10**40), 10**40).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.from_regex(r"[+-]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(numbers, min_size=n, max_size=n), min_size=1))
)
@example(rows=[["9007199254740993", "1e23", "8.5e22"]])
@example(rows=[["3.4028235677973366e38", "3.40282356779733661637539395458142568447e38"]])
def test_any_number_reads_as_float_reads_it(tmp_path: Path, rows: list[list[str]]) -> None:
    content = "\n".join(",".join(row) for row in rows).encode()
    want = np.array([[expected(cell) for cell in row] for row in rows])
    assert same(wide_csv.read(write(tmp_path, content), threads=2), want)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cell=st.text(st.sampled_from("0123456789.eE+-_xnaif \t\"'"), min_size=1, max_size=12))
def test_any_text_is_read_as_float_reads_it_or_refused(tmp_path: Path, cell: str) -> None:
    path = write(tmp_path, b"7," + cell.encode())
    inner = cell.strip()
    if len(inner) > 1 and inner[0] == inner[-1] == '"':
        inner = inner[1:-1].strip()
    try:
        want = expected(inner) if inner else np.float32(nan)
        legal = "_" not in inner
    except ValueError:
        legal = inner in ("", "NA")
    try:
        got = wide_csv.read(path)
    except InputError:
        # The spellings of nan that float() takes and this reader does not are the only further refusals.
        assert not legal or "nan" in inner.lower()
    else:
        assert legal
        assert same(got, [[7, want]])
