# SPDX-License-Identifier: Apache-2.0
"""From the files of P1B3 to two tables of features and a list of rows that point into them.

What is drawn is drawn as the benchmark does it: pandas' `sample(random_state=s)` is the legacy generator of
numpy, seeded with s, choosing without replacement; the columns come from one such generator for both tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.data import labelled_csv
from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from joulelab.data.labelled import Floats, Labelled, Words

SEED = 2017
_DOSES = (-5.0, -4.0)
_KEPT_BY_GROWTH = (0.7, 0.18, 0.01)  # of (0, 50), [50, 100] and above; of what did not grow, all
_TEST_CELLS = 0.15
_VALIDATION = 0.1
_BLOCK = 512  # columns that are worked on at once

Rows = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, kw_only=True)
class Joined:
    """Row i is dose[i], cells[cell[i]], drugs[drug[i]] and growth[i], in hundreds of per cent."""

    cells: Floats  # standardised, a line for each cell line
    drugs: Floats
    cell: Rows
    drug: Rows
    dose: np.ndarray[Any, np.dtype[np.float32]]
    growth: np.ndarray[Any, np.dtype[np.float32]]
    train: int  # how many rows of each
    val: int
    test: int


def join(
    paths: Mapping[str, Path], read: Callable[..., Labelled], *, columns_drawn: int = 0, seed: int = SEED
) -> Joined:
    """Read and join. `paths` has response, expression, descriptors, test_cells and test_drugs.

    `columns_drawn` of each table are used, drawn at random; 0 means all.
    """
    response = read(
        paths["response"], text=("NSC", "CELLNAME"), numbers=("LOG_CONCENTRATION", "GROWTH"), separator=","
    )
    expression = read(paths["expression"], text=("CellLine",), separator="\t")
    descriptors = read(paths["descriptors"], text=("NAME",), separator="\t")
    test_cells = labelled_csv.read(paths["test_cells"], text=("CELLNAME",)).texts["CELLNAME"]
    test_drugs = labelled_csv.read(paths["test_drugs"], text=("NSC",)).texts["NSC"]

    draw = np.random.RandomState(seed)
    cells = standardised(paths["expression"], _drawn(expression.values, columns_drawn, draw))
    drugs = standardised(paths["descriptors"], _drawn(descriptors.values, columns_drawn, draw))

    # ---- which rows of the responses are used, and which line of each table they point to ------------------
    growth, dose = response.column("GROWTH"), response.column("LOG_CONCENTRATION")
    rows = balanced(growth, dose, seed=seed)
    lines = {
        name.replace(".", ":"): k for k, name in enumerate(_keys(paths["expression"], expression, "CellLine"))
    }
    cell = _found(response.texts["CELLNAME"], lines)[rows]
    lines = {name: k for k, name in enumerate(_keys(paths["descriptors"], descriptors, "NAME"))}
    drug = _found(response.texts["NSC"], lines)[rows]
    known = (cell >= 0) & (drug >= 0)
    rows, cell, drug = rows[known], cell[known], drug[known]

    # ---- training and validation: drugs and cells that the lists do not keep back --------------------------
    kept_back = _listed(response.texts["NSC"], test_drugs)[rows]
    unseen_cell = _listed(response.texts["CELLNAME"], test_cells)[rows]
    seen = np.flatnonzero(~kept_back & ~unseen_cell)
    # The list of test cells has done its work here: the cells of the test are drawn from those of the
    # training.
    used = _in_order_of_appearance(cell[seen])
    chosen = used[_sample(len(used), _TEST_CELLS, seed)]
    test = np.flatnonzero(kept_back & np.isin(cell, chosen))
    order = np.concatenate([seen[_sample(len(seen), 1.0, seed)], test[_sample(len(test), 1.0, seed)]])
    val = int(len(seen) * _VALIDATION)
    if val == 0 or len(test) == 0:
        raise InputError(
            f"{paths['response'].parent}: {len(seen)} rows are left to train and {len(test)} to test "
            "when the files are joined",
            cure="take all five files from one source: cells and drugs must go by the same names",
        )
    return Joined(
        cells=cells,
        drugs=drugs,
        cell=cell[order],
        drug=drug[order],
        dose=dose[rows[order]],
        growth=growth[rows[order]] / np.float32(100.0),
        train=len(seen) - val,
        val=val,
        test=len(test),
    )


def balanced(growth: Any, dose: Any, *, seed: int) -> Rows:
    """Rows within the doses, thinned out where growth is common; rows without a growth fall out."""
    rows = np.flatnonzero((dose >= _DOSES[0]) & (dose <= _DOSES[1]))
    g = growth[rows]
    groups = [rows[(g > 0) & (g < 50)], rows[(g >= 50) & (g <= 100)], rows[g > 100]]
    thinned = [
        group[_sample(len(group), share, seed)] for group, share in zip(groups, _KEPT_BY_GROWTH, strict=True)
    ]
    return np.concatenate([rows[g <= 0], *thinned])


def standardised(path: Path, table: Floats) -> Floats:
    """Columns without any value dropped, gaps filled with the column's mean, then mean 0 and variance 1."""
    kept = np.flatnonzero(~np.isnan(table).all(0))
    if len(kept) == 0:
        raise InputError(
            f"{path} has no number in any of its columns", cure="give the file of the original layout"
        )
    table = table[:, kept] if len(kept) < table.shape[1] else table
    for first in range(0, table.shape[1], _BLOCK):
        block = table[:, first : first + _BLOCK].astype(np.float64)
        if np.isinf(block).any():
            raise InputError(f"{path} holds infinite values", cure="give finite numbers, or leave gaps")
        gap = np.isnan(block)
        mean = np.nanmean(block, axis=0)
        block = np.where(gap, mean, block) - mean
        spread = block.std(axis=0)
        table[:, first : first + _BLOCK] = block / np.where(spread > 0, spread, 1.0)
    return np.ascontiguousarray(table)


def _drawn(table: Floats, count: int, draw: np.random.RandomState) -> Floats:
    total = table.shape[1]
    return table[:, draw.choice(total, size=count, replace=False)] if 0 < count < total else table


def _sample(count: int, share: float, seed: int) -> Rows:
    """Positions of `share` of `count` rows, in random order."""
    if count == 0:
        return np.empty(0, np.int64)
    return np.random.RandomState(seed).choice(count, size=round(share * count), replace=False)


def _keys(path: Path, table: Labelled, column: str) -> list[str]:
    texts = table.texts[column]
    if len(texts.words) < len(texts.codes):
        raise InputError(f"{path} has a name twice in its column {column}", cure="keep one line of each name")
    return [texts.at(row) for row in range(len(texts.codes))]


def _found(column: Words, lines: Mapping[str, int]) -> Rows:
    """For each row the line of its word; -1 where there is none."""
    return np.array([lines.get(word, -1) for word in column.words], np.int64)[column.codes]


def _listed(column: Words, names: Words) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """For each row whether its word is one of `names`."""
    listed = set(names.words)
    return np.array([word in listed for word in column.words], np.bool_)[column.codes]


def _in_order_of_appearance(values: Rows) -> Rows:
    found, first = np.unique(values, return_index=True)
    return found[np.argsort(first)]
