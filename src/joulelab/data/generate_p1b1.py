# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the P1B1 files: made-up gene expression of 20 kinds of tumour, in the real size and format.

A gene is silent, sporadic or expressed. How much of it there is (log-normal) and whether there is any both
follow the kind of tumour and four smooth factors, so that a code of two numbers explains a little, twenty
numbers more, and much stays unexplained. Values are log10(1 + x) with two decimals. The same seed gives the
same bytes (on one kind of machine: the last decimal rests on its exp and log).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.data.stand_in import CANCERS, Progress, case_id, scaled, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GENES = 60_483
VERSION = 1  # of the bytes; it names the folder, so an older stand-in is never taken for a newer one
FILES = {"P1B1.dev.train.csv": 3_000, "P1B1.dev.test.csv": 1_000}
TEXT = ("case_id", "cancer_type")

_SILENT = 0.415  # shares of the genes: they set the share of zeros, and so the size of the file
_SPORADIC = 0.23
_FACTORS = 4
_TISSUE_SD = 1.4  # of the natural logarithm
_FACTOR_SD = 0.4
_TISSUE_ODDS_SD = 2.0  # of the log-odds of a zero
_FACTOR_ODDS_SD = 0.9
_LIBRARY_SD = 0.15

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class _Genes:
    """What is the same in every row: for each gene, and for each kind of tumour or factor and gene."""

    mean_log: Array
    zero_odds: Array
    noise_sd: Array
    tissue_log: Array
    tissue_odds: Array
    factor_log: Array
    factor_odds: Array


def generate(out: Path, *, scale: float, seed: int = 0, progress: Progress | None = None) -> list[Path]:
    """Write the two files into `out` and return their paths; a file that is there already is kept."""
    files = {name: (rows + 1, partial(lines, name, scale=scale, seed=seed)) for name, rows in FILES.items()}
    return write(out, files, progress=progress)


def lines(name: str, *, scale: float, seed: int = 0) -> Iterator[bytes]:
    """The lines of one of the files, one at a time: first the header."""
    count = scaled(GENES, scale)
    genes = _make_genes(count, seed=seed)
    names = [*TEXT, *(f"ENSG{11 * k + 3:011d}.{k % 9 + 1:02d}" for k in range(count))]
    yield (",".join(names) + "\n").encode("ascii")
    # What is printed has two decimals at most, so every cell is one of these.
    cells = [_cell(hundredths) for hundredths in range(2000)]
    for row in range(FILES[name]):
        # Every row has its own generator: its values do not depend on which rows were made before it.
        rng = np.random.default_rng([seed, 1, FILES[name], row])
        kind = int(rng.integers(len(CANCERS)))
        label = f"{case_id(rng)},{CANCERS[kind]}"
        hundredths = np.rint(100.0 * np.log10(1.0 + _values(genes, rng, kind=kind))).astype(np.int64)
        yield f"{label},{','.join([cells[k] for k in hundredths.tolist()])}\n".encode("ascii")


def _cell(hundredths: int) -> str:
    return f"{hundredths / 100:.2f}".removesuffix("0")


def _make_genes(count: int, *, seed: int) -> _Genes:
    rng = np.random.default_rng([seed, 0])
    # Exact shares, in random order: with few genes a drawn share would move the size of the file.
    place = (rng.permutation(count) + 0.5) / count
    silent, sporadic = place < _SILENT, (place >= _SILENT) & (place < _SILENT + _SPORADIC)

    def by_kind(first: Array, second: Array, third: Array) -> Array:
        return np.where(silent, first, np.where(sporadic, second, third))

    zero_share = by_kind(
        rng.uniform(0.93, 1.0, count), rng.beta(1.2, 1.2, count), rng.uniform(0.0, 0.03, count)
    )
    zero_share = np.clip(zero_share, 1e-4, 1 - 1e-4)
    kinds = len(CANCERS)
    return _Genes(
        mean_log=by_kind(
            rng.normal(6.2, 1.2, count), rng.normal(7.2, 1.3, count), rng.normal(10.3, 1.8, count)
        ),
        zero_odds=np.log(zero_share / (1.0 - zero_share)),
        noise_sd=rng.uniform(0.5, 1.1, count),
        tissue_log=rng.normal(0.0, _TISSUE_SD, (kinds, count)),
        tissue_odds=rng.normal(0.0, _TISSUE_ODDS_SD, (kinds, count)),
        factor_log=rng.normal(0.0, _FACTOR_SD, (_FACTORS, count)),
        factor_odds=rng.normal(0.0, _FACTOR_ODDS_SD, (_FACTORS, count)),
    )


def _values(genes: _Genes, rng: np.random.Generator, *, kind: int) -> Array:
    count = len(genes.mean_log)
    factors = rng.standard_normal(_FACTORS)
    library = _LIBRARY_SD * rng.standard_normal()
    logs = genes.mean_log + genes.tissue_log[kind] + library
    odds = genes.zero_odds + genes.tissue_odds[kind]
    for factor, by_log, by_odds in zip(factors.tolist(), genes.factor_log, genes.factor_odds, strict=True):
        # Not a matrix product: its sums depend on the library's choice of threads and instructions.
        logs += factor * by_log
        odds += factor * by_odds
    logs += genes.noise_sd * rng.standard_normal(count)
    values: Array = np.where(rng.random(count) * (1.0 + np.exp(-odds)) < 1.0, 0.0, np.exp(logs))
    return values
