# SPDX-License-Identifier: Apache-2.0
"""Other ways to read a numeric CSV file, kept to be compared with ours.

They take a number of threads where their library does; pandas and NumPy have one, polars reads
POLARS_MAX_THREADS when it is loaded. Their decimals may be off by one unit in the last place.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.data.file_bytes import opened
from joulelab.data.libraries import needed, reading

if TYPE_CHECKING:
    from pathlib import Path

ROWS_A_CHUNK = 2_000_000  # what the study of 2019 gave: more rows than any of its files has
ARROW_BLOCK = 256 << 20


def pandas_default(path: Path, *, threads: int | None = None) -> Any:
    """`pandas.read_csv` with its defaults and then a cast: what the benchmarks did at first."""
    del threads
    with needed("pandas", loader="pandas"):
        import pandas as pd
    with reading(path, library="pandas"):
        return np.ascontiguousarray(pd.read_csv(path, header=None).to_numpy(dtype=np.float32))


def pandas_chunked(path: Path, *, threads: int | None = None) -> Any:
    """`pandas.read_csv` in chunks with low_memory=False: the cure of the study of 2019."""
    del threads
    with needed("pandas", loader="pandas_chunked"):
        import pandas as pd
    with reading(path, library="pandas"):
        chunks = pd.read_csv(path, header=None, chunksize=ROWS_A_CHUNK, low_memory=False)
        table = pd.concat(list(chunks), ignore_index=True)
        return np.ascontiguousarray(table.to_numpy(dtype=np.float32))


def polars(path: Path, *, threads: int | None = None) -> Any:
    """`polars.read_csv` with float32 for every column."""
    del threads
    with needed("polars", loader="polars"):
        import polars as pl
    schema = dict.fromkeys(_names(path), pl.Float32)
    with reading(path, library="polars", raises=(pl.exceptions.PolarsError,)):
        return pl.read_csv(path, has_header=False, schema=schema).to_numpy(order="c")


def pyarrow(path: Path, *, threads: int | None = None) -> Any:
    """`pyarrow.csv.read_csv` with float32 for every column, in large blocks."""
    with needed("pyarrow", loader="pyarrow"):
        import pyarrow as pa
        from pyarrow import csv
    names = _names(path)
    with reading(path, library="pyarrow"):
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(
                column_names=names, block_size=ARROW_BLOCK, use_threads=threads != 1
            ),
            convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float32())),
        )
        return side_by_side(table)


def side_by_side(table: Any) -> Any:
    """The columns of an Arrow table as one array of rows and columns."""
    out = np.empty((table.num_rows, table.num_columns), np.float32)
    for k, column in enumerate(table.columns):
        out[:, k] = column.to_numpy()
    return out


def dask(path: Path, *, threads: int | None = None) -> Any:
    """`dask.dataframe.read_csv` in float64, computed in threads and cast."""
    with needed("dask", loader="dask"):
        import dask.dataframe as dd
    with opened(path) as source:
        sample = 2 * len(source.line(0)) + 1
    with reading(path, library="dask"):
        frame = dd.read_csv(path, header=None, dtype=np.float64, sample=max(sample, 1 << 18))
        with ThreadPoolExecutor(threads) as pool:  # its own would outlive the call
            table = frame.compute(scheduler="threads", pool=pool)
        return np.ascontiguousarray(table.to_numpy(dtype=np.float32))


def loadtxt(path: Path, *, threads: int | None = None) -> Any:
    """`numpy.loadtxt`, the fastest of the readers that most people have."""
    del threads
    with reading(path, library="numpy.loadtxt"):
        return np.loadtxt(path, delimiter=",", dtype=np.float32, comments=None, ndmin=2)


def _names(path: Path) -> list[str]:
    """A name for each column, by the first line."""
    with opened(path) as source:
        return [f"c{k}" for k in range(source.line(0).count(b",") + 1)]
