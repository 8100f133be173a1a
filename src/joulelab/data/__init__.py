# SPDX-License-Identifier: Apache-2.0
"""Files into arrays. A new way to read a table is one function and one line here."""

# Called as function(path, threads=N); each returns a float32 array of rows and columns.
LOADERS = {
    "ours": "joulelab.data.wide_csv:read",
    "ours_cached": "joulelab.data.cache:read",
    "pandas": "joulelab.data.loaders:pandas_default",
    "pandas_chunked": "joulelab.data.loaders:pandas_chunked",
    "dask": "joulelab.data.loaders:dask",
    "polars": "joulelab.data.loaders:polars",
    "pyarrow": "joulelab.data.loaders:pyarrow",
    "loadtxt": "joulelab.data.loaders:loadtxt",
}

# Files with a header and columns of text; called as function(path, text=..., numbers=..., separator=...,
# threads=N), like `labelled_csv.read`.
LABELLED_LOADERS = {
    "ours": "joulelab.data.labelled_csv:read",
    "ours_cached": "joulelab.data.cache:read_labelled",
    "pandas": "joulelab.data.labelled_loaders:pandas_default",
    "pandas_chunked": "joulelab.data.labelled_loaders:pandas_chunked",
    "dask": "joulelab.data.labelled_loaders:dask",
    "polars": "joulelab.data.labelled_loaders:polars",
    "pyarrow": "joulelab.data.labelled_loaders:pyarrow",
    "loadtxt": "joulelab.data.labelled_loaders:loadtxt",
}

# The library that a loader needs and JouleLab itself does not: the extra `loaders` has it.
LIBRARIES = {"pandas": "pandas", "pandas_chunked": "pandas", "dask": "dask", "pyarrow": "pyarrow"}

# Each is called as function(folder, scale=..., seed=..., progress=...) and returns the paths it wrote.
GENERATORS = {
    "nt3": "joulelab.data.generate_nt3:generate",
    "p1b1": "joulelab.data.generate_p1b1:generate",
    "p1b2": "joulelab.data.generate_p1b2:generate",
    "p1b3": "joulelab.data.generate_p1b3:generate",
    "yolo": "joulelab.data.generate_xview:generate",
}
