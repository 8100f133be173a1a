# SPDX-License-Identifier: Apache-2.0
"""Other ways to read a file with a header and columns of text, kept to be compared with ours."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.data.file_bytes import opened
from joulelab.data.labelled import Columns, Labelled, Words, columns
from joulelab.data.libraries import needed, reading
from joulelab.data.loaders import ARROW_BLOCK, ROWS_A_CHUNK, side_by_side
from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_MISSING = ["na", "-", ""]


def pandas_default(
    path: Path,
    *,
    text: Sequence[str] = (),
    numbers: Sequence[str] | None = None,
    separator: str = ",",
    threads: int | None = None,
) -> Labelled:
    """`pandas.read_csv` with its defaults, then a cast: what the benchmarks did at first."""
    del threads  # its parser has one
    return _pandas(path, _wanted(path, text, numbers, separator), separator, chunked=False)


def pandas_chunked(
    path: Path,
    *,
    text: Sequence[str] = (),
    numbers: Sequence[str] | None = None,
    separator: str = ",",
    threads: int | None = None,
) -> Labelled:
    """`pandas.read_csv` in chunks with low_memory=False: the cure of the study of 2019."""
    del threads
    return _pandas(path, _wanted(path, text, numbers, separator), separator, chunked=True)


def polars(
    path: Path,
    *,
    text: Sequence[str] = (),
    numbers: Sequence[str] | None = None,
    separator: str = ",",
    threads: int | None = None,
) -> Labelled:
    """`polars.read_csv` with float32 for every column of numbers."""
    del threads  # it has as many as POLARS_MAX_THREADS said when it was loaded
    with needed("polars", loader="polars"):
        import polars as pl
    wanted = _wanted(path, text, numbers, separator)
    texts, names = wanted.names(wanted.text), wanted.names(wanted.numbers)
    with reading(path, library="polars", raises=(pl.exceptions.PolarsError,)):
        table = pl.read_csv(
            path,
            separator=separator,
            columns=[*texts, *names],
            schema_overrides={**dict.fromkeys(texts, pl.String), **dict.fromkeys(names, pl.Float32)},
            null_values=_MISSING,
        )
        values = np.ascontiguousarray(table.select(names).to_numpy(order="c"))
        words = {name: _words(table[name].fill_null("").to_list()) for name in texts}
    return Labelled(names=names, values=values, texts=words)


def pyarrow(
    path: Path,
    *,
    text: Sequence[str] = (),
    numbers: Sequence[str] | None = None,
    separator: str = ",",
    threads: int | None = None,
) -> Labelled:
    """`pyarrow.csv.read_csv` with float32 for every column of numbers, in large blocks."""
    with needed("pyarrow", loader="pyarrow"):
        import pyarrow as pa
        from pyarrow import csv
    wanted = _wanted(path, text, numbers, separator)
    texts, names = wanted.names(wanted.text), wanted.names(wanted.numbers)
    types = {**dict.fromkeys(texts, pa.string()), **dict.fromkeys(names, pa.float32())}
    with reading(path, library="pyarrow"):
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(block_size=ARROW_BLOCK, use_threads=threads != 1),
            parse_options=csv.ParseOptions(delimiter=separator),
            convert_options=csv.ConvertOptions(
                column_types=types, include_columns=[*texts, *names], null_values=_MISSING
            ),
        )
        values = side_by_side(table.select(list(names)))
        words = {name: _words(table[name].to_pylist()) for name in texts}
    return Labelled(names=names, values=values, texts=words)


def dask(
    path: Path,
    *,
    text: Sequence[str] = (),
    numbers: Sequence[str] | None = None,
    separator: str = ",",
    threads: int | None = None,
) -> Labelled:
    """`dask.dataframe.read_csv` in float64, computed in threads and cast."""
    with needed("dask", loader="dask"):
        import dask.dataframe as dd
    wanted = _wanted(path, text, numbers, separator)
    texts, names = wanted.names(wanted.text), wanted.names(wanted.numbers)
    with opened(path) as source:
        header = len(source.line(0))
        sample = max(1 << 18, header + 2 * len(source.line(header)) + 1)
    types = {**dict.fromkeys(texts, "object"), **dict.fromkeys(names, "float64")}
    with reading(path, library="dask"):
        frame = dd.read_csv(
            path, sep=separator, na_values=_MISSING, usecols=[*texts, *names], dtype=types, sample=sample
        )
        with ThreadPoolExecutor(threads) as pool:  # its own would outlive the call
            table = frame.compute(scheduler="threads", pool=pool)
        values = np.ascontiguousarray(table[list(names)].to_numpy(dtype=np.float32))
        words = {name: _words(table[name].fillna("").tolist()) for name in texts}
    return Labelled(names=names, values=values, texts=words)


def loadtxt(
    path: Path,
    *,
    text: Sequence[str] = (),
    numbers: Sequence[str] | None = None,
    separator: str = ",",
    threads: int | None = None,
) -> Labelled:
    """`numpy.loadtxt` on lines from which Python has taken the text; it has no notion of a missing value."""
    del threads
    wanted = _wanted(path, text, numbers, separator)
    if not wanted.text_first:
        raise InputError(
            f"loader 'loadtxt' reads files whose text stands in front; {path} is no such file",
            cure="loader = 'ours'",
        )
    found: list[list[str]] = [[] for _ in wanted.text]

    def rest() -> Iterator[str]:
        with path.open(encoding="utf-8") as file:
            next(file)
            for line in file:
                *words, numeric = line.split(separator, len(found))
                for column, word in zip(found, words, strict=True):
                    column.append(word.strip('"'))
                yield numeric

    with reading(path, library="numpy.loadtxt"):
        values = np.loadtxt(rest(), delimiter=separator, dtype=np.float32, comments=None, ndmin=2)
    texts = {wanted.header[k]: _words(column) for k, column in zip(wanted.text, found, strict=True)}
    return Labelled(names=wanted.names(wanted.numbers), values=values, texts=texts)


def _wanted(path: Path, text: Sequence[str], numbers: Sequence[str] | None, separator: str) -> Columns:
    with opened(path) as source:
        line = source.line(source.text_begins()).rstrip(b"\r\n")
    return columns(path, line, text=text, numbers=numbers, separator=separator)


def _pandas(path: Path, wanted: Columns, separator: str, *, chunked: bool) -> Labelled:
    with needed("pandas", loader="pandas_chunked" if chunked else "pandas"):
        import pandas as pd
    texts, names = wanted.names(wanted.text), wanted.names(wanted.numbers)
    options: dict[str, Any] = {"sep": separator, "na_values": _MISSING, "dtype": dict.fromkeys(texts, str)}
    if len(texts) + len(names) < len(wanted.header):
        options["usecols"] = [*texts, *names]
    with reading(path, library="pandas"):
        if chunked:
            chunks = pd.read_csv(path, chunksize=ROWS_A_CHUNK, low_memory=False, **options)
            table = pd.concat(list(chunks), ignore_index=True)
        else:
            table = pd.read_csv(path, **options)
        values = np.ascontiguousarray(table[list(names)].to_numpy(dtype=np.float32))
        words = {name: _words(table[name].fillna("").tolist()) for name in texts}
    return Labelled(names=names, values=values, texts=words)


def _words(column: Sequence[str]) -> Words:
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(word, len(numbers)) for word in column], np.int32)
    return Words(codes=codes, words=tuple(numbers))
