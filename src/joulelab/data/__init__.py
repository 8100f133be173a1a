# SPDX-License-Identifier: Apache-2.0
"""Files into arrays. A new way to read a table is one function and one line here."""

# Called as function(path, threads=N); each returns a float32 array of rows and columns.
LOADERS = {
    "ours": "joulelab.data.wide_csv:read",
    "pandas": "joulelab.data.loaders:pandas_default",
    "loadtxt": "joulelab.data.loaders:loadtxt",
}
