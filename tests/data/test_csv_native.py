# SPDX-License-Identifier: Apache-2.0
"""The compiled parser, each variant: the bits of float(), the ways of the numba kernel, no byte too far."""

from __future__ import annotations

import ctypes
import mmap
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joulelab.data import csv_kernel, csv_native
from joulelab.errors import InputError

PAGE = mmap.PAGESIZE


@pytest.fixture(params=["avx512", "avx2", "portable"])
def variant(request: pytest.FixtureRequest, native: ModuleType) -> str:
    name: str = request.param
    if name not in native.VARIANTS:
        pytest.skip(f"this processor does not run {name}")
    return name


def drive(kernel: Any, data: Any, columns: int, *, variant: tuple[str, ...] = (), room: int = 64) -> Any:
    """Parse all of `data`: (how it ended, position, row, column, line), the array, the cells left over."""
    rows = kernel.count_newlines(data, 0, len(data), *variant) + 1
    out = np.full((rows, columns), -7, np.float32)
    backlog = np.zeros((room, 5), np.int64)
    state: tuple[int, ...] = (csv_kernel.BACKLOG_FULL, 0, 0, 0, 0, 0)
    over: list[list[int]] = []
    while state[0] == csv_kernel.BACKLOG_FULL:
        state = kernel.parse_rows(data, state[1], len(data), out, *state[2:5], backlog, *variant)
        over += backlog[: state[5]].tolist()
    return state[:5], out[: state[2]], over


def as_data(text: str | bytes) -> Any:
    return np.frombuffer(text.encode() if isinstance(text, str) else text, np.uint8)


def values(native: ModuleType, text: str, columns: int, *, variant: str) -> Any:
    """The array, with Python's float() in the cells that were left over."""
    state, out, over = drive(native, as_data(text), columns, variant=(variant,))
    assert state[0] == csv_kernel.FINISHED
    for first, after, row, column, _ in over:
        out[row, column] = nearest(text[first:after])
    return out


def nearest(text: str) -> np.float32:
    with np.errstate(over="ignore", under="ignore"):
        return np.float32(float(text))


def tie(rng: random.Random) -> str:
    """A decimal in the middle of two float32, or a hair beside it."""
    low = np.float32(rng.uniform(-1, 1) * 10.0 ** rng.randint(-8, 8))
    middle = (float(low) + float(np.nextafter(low, np.float32(np.inf)))) / 2
    return repr(middle) if rng.random() < 0.5 else f"{middle:.{rng.randint(9, 20)}g}"


def exponent(rng: random.Random) -> str:
    mark = rng.choice(["e", "E", "e+", "e-", "e0", "e-00"])
    return f"{rng.gauss(0, 1):.{rng.randint(0, 12)}f}{mark}{rng.randint(0, 12)}"


def any_length(rng: random.Random) -> str:
    text = f"{rng.randrange(10 ** rng.randint(1, 9))}.{rng.randrange(10**9):09d}"
    return rng.choice(["", "-"]) + text[: rng.randint(1, 18)]


FORMATS: dict[str, Any] = {
    "zero": lambda rng: rng.choice(["0.0", "0", "-0.0", "-0", "0.", ".0", "00.000"]),
    "%.12g": lambda rng: f"{rng.lognormvariate(5, 6):.12g}",
    "%.3g": lambda rng: f"{rng.gauss(0, 1) * 10.0 ** rng.randint(-6, 6):.3g}",
    "%.6f": lambda rng: f"{rng.gauss(0, 100):.6f}",
    "digit": lambda rng: str(rng.randrange(10)),
    "integer": lambda rng: str(rng.randint(-(10 ** rng.randint(1, 18)), 10 ** rng.randint(1, 18))),
    "exponent": exponent,
    "small": lambda rng: f"{rng.random():.9f}e-{rng.randint(30, 50)}",
    "long": lambda rng: f"{rng.gauss(0, 1):.{rng.randint(15, 40)}f}",
    "%.17g": lambda rng: f"{rng.gauss(0, 1) * 10.0 ** rng.randint(-30, 30):.17g}",
    "tie": tie,
    "any length": any_length,
}


@pytest.mark.parametrize("name", [*FORMATS, "all"])
def test_gives_the_bits_of_float(native: ModuleType, variant: str, name: str) -> None:
    rng = random.Random(name)
    makers = list(FORMATS.values()) if name == "all" else [FORMATS[name], FORMATS["zero"]]
    for columns in (2, 3, 40, 1001):
        rows = 4000 // columns + 1
        cells = [[rng.choice(makers)(rng) for _ in range(columns)] for _ in range(rows)]
        end = rng.choice(["\n", "\r\n"])
        text = end.join(",".join(row) for row in cells) + rng.choice(["", end])
        found = values(native, text, columns, variant=variant)
        wanted = np.array([[nearest(cell) for cell in row] for row in cells], np.float32)
        wrong = np.argwhere(found.view(np.uint32) != wanted.view(np.uint32))
        assert not len(wrong), [(cells[r][c], found[r, c], wanted[r, c]) for r, c in wrong[:3]]


def check_like_numba(native: ModuleType, text: bytes, columns: int, *, variant: str, room: int) -> None:
    data = as_data(text)
    ended, out, over = drive(native, data, columns, variant=(variant,), room=room)
    numba_ended, numba_out, numba_over = drive(csv_kernel, data, columns, room=room)
    assert over == numba_over
    assert ended == numba_ended
    for array in (out, numba_out):
        for _, _, row, column, _ in over:
            if row < len(array):
                array[row, column] = 0
    assert out.tobytes() == numba_out.tobytes()


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    text=st.text('0123456789.,\n,\n,.\r -+eE"x', max_size=400),
    columns=st.integers(1, 5),
    room=st.integers(1, 80),
)
def test_ends_as_numba_does_on_any_text(native: ModuleType, text: str, columns: int, room: int) -> None:
    for name in native.VARIANTS:
        check_like_numba(native, text.encode(), columns, variant=name, room=room)


def test_ends_as_numba_does_on_a_table_with_one_byte_changed(native: ModuleType, variant: str) -> None:
    rng = random.Random(7)
    for _ in range(400):
        columns = rng.choice([2, 7, 40, 300])
        table = [
            ",".join(rng.choice(["0.0", "3", "-1.25", "12345.678"]) for _ in range(columns)) for _ in range(5)
        ]
        text = bytearray("\n".join(table).encode() + rng.choice([b"", b"\n", b"\n \n"]))
        for _ in range(rng.randint(0, 2)):
            text[rng.randrange(len(text))] = ord(rng.choice(",\n\r .-x\xff1"))
        check_like_numba(native, bytes(text), columns, variant=variant, room=rng.choice([1, 3, 64, 500]))


def test_reads_no_byte_outside_the_data(native: ModuleType, variant: str) -> None:
    """The data fill a page up to both of its ends, and the pages beside it cannot be touched."""
    region = mmap.mmap(-1, 3 * PAGE)
    whole = np.frombuffer(region, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    protect, forbidden, allowed = libc.mprotect, 0, 3
    for size in [*range(1, 200), PAGE - 1, PAGE]:
        for tail in (b"\n", b"1", b",", b"\r\n"):
            text = (b"1.5,2,-3.25,12345.6789,0\n" * (size // 25 + 1))[: size - len(tail)] + tail
            text = text[:size]
            # Up against the upper page, then against the lower one.
            for start in (2 * PAGE - size, PAGE):
                whole[start : start + size] = as_data(text)
                sides = (ctypes.c_void_p(whole.ctypes.data), ctypes.c_void_p(whole.ctypes.data + 2 * PAGE))
                assert [protect(side, PAGE, forbidden) for side in sides] == [0, 0]
                drive(native, whole[start : start + size], 5, variant=(variant,))
                assert [protect(side, PAGE, allowed) for side in sides] == [0, 0]


def test_reads_a_file_that_ends_with_a_page(native: ModuleType, variant: str, tmp_path: Path) -> None:
    line = b"0.5,12345.678,-3\n"
    text = line * (2 * PAGE // len(line))
    text = text[:-1] + b"0" * (2 * PAGE - len(text)) + b"\n"
    path = tmp_path / "two pages.csv"
    path.write_bytes(text)
    assert path.stat().st_size == 2 * PAGE
    with path.open("rb") as file:
        data = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    ended, out, over = drive(native, data, 3, variant=(variant,))
    assert ended[0] == csv_kernel.FINISHED
    assert not over
    assert (out[:-1] == np.array([0.5, 12345.678, -3], np.float32)).all()


@pytest.mark.parametrize("columns", [2, 5, 16, 41])
def test_writes_only_into_its_rows(native: ModuleType, variant: str, columns: int) -> None:
    """Other threads write the rows before and after at the same time."""
    text = (",".join(["1.5"] * columns) + "\n").encode() * 9
    out = np.full((20, columns), -7, np.float32)
    backlog = np.zeros((256, 5), np.int64)
    state = native.parse_rows(as_data(text), 0, len(text), out, 5, 0, 5, backlog, variant)
    assert state == (csv_kernel.FINISHED, len(text), 14, 0, 14, 0)
    assert (out[5:14] == 1.5).all()
    assert (out[:5] == -7).all()
    assert (out[14:] == -7).all()


def test_refuses_more_rows_than_there_is_room_for(native: ModuleType, variant: str) -> None:
    # As when the file changed after its lines were counted.
    text = b"1,2\n" * 100
    out = np.zeros((60, 2), np.float32)
    state = native.parse_rows(
        as_data(text), 0, len(text), out, 0, 0, 0, np.zeros((256, 5), np.int64), variant
    )
    assert state[:4] == (native.MORE_ROWS, 240, 60, 0)
    assert (out == [1, 2]).all()


@pytest.mark.parametrize("room", [1, 2, 31, 32, 33, 64])
def test_stays_inside_the_backlog(native: ModuleType, variant: str, room: int) -> None:
    text = b"x," * 99 + b"x\n"
    entries = np.full((room + 1, 5), -7, np.int64)
    state = native.parse_rows(
        as_data(text), 0, len(text), np.zeros((1, 100), np.float32), 0, 0, 0, entries[:-1], variant
    )
    assert state[0] == csv_kernel.BACKLOG_FULL
    assert (entries[: state[5], 0] == 2 * np.arange(state[5])).all()
    assert (entries[-1] == -7).all()


def test_counts_newlines(native: ModuleType, variant: str) -> None:
    rng = np.random.default_rng(3)
    data = rng.integers(9, 12, 1000).astype(np.uint8)
    for start, stop in [(0, 1000), (1, 999), (63, 64), (64, 128), (500, 500), (7, 70)]:
        wanted = int((data[start:stop] == 10).sum())
        assert native.count_newlines(data, start, stop, variant) == wanted


def test_is_exact_where_the_process_flushes_denormals(native: ModuleType, variant: str) -> None:
    import torch

    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush denormals")
    try:
        out = values(native, "1e-40,0.5\n2.5e-42,1\n", 2, variant=variant)
    finally:
        torch.set_flush_denormal(False)
    assert out[:, 0].tobytes() == np.array(["1e-40", "2.5e-42"], np.float64).astype(np.float32).tobytes()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"out": np.zeros((2, 2), np.float64)}, "float32"),
        ({"out": np.zeros(4, np.float32)}, "two dimensions"),
        ({"backlog": np.zeros((4, 4), np.int64)}, "five columns"),
        ({"start": -1}, "inside"),
        ({"stop": 5}, "inside"),
        ({"row": 3, "column": 1}, "inside"),
        ({"variant": "sse2"}, "sse2"),
    ],
)
def test_checks_what_it_is_given(native: ModuleType, change: dict[str, Any], says: str) -> None:
    given: dict[str, Any] = {
        "data": as_data(b"1,2\n"),
        "start": 0,
        "stop": 4,
        "out": np.zeros((1, 2), np.float32),
        "row": 0,
        "column": 0,
        "line": 0,
        "backlog": np.zeros((4, 5), np.int64),
        "variant": None,
    }
    with pytest.raises((TypeError, ValueError), match=says):
        native.parse_rows(*{**given, **change}.values())


def test_says_why_it_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joulelab.data._csv_native", None)
    monkeypatch.delattr("joulelab.data._csv_native", raising=False)
    module, reason = csv_native.find()
    assert module is None
    assert "numba serves" in reason
    assert "compiler" in reason
    monkeypatch.setattr(csv_native, "native", None)
    monkeypatch.setattr(csv_native, "reason", reason)
    assert csv_native.kernel() is csv_kernel
    with pytest.raises(InputError, match="numba serves"):
        csv_native.kernel("native")


def test_is_chosen_by_name(native: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_native, "native", native)
    assert csv_native.kernel() is native
    assert csv_native.kernel("native") is native
    assert csv_native.kernel("numba") is csv_kernel
    with pytest.raises(InputError, match="one of native, numba"):
        csv_native.kernel("rust")
