# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the P1B2 files: made-up mutations by gene, ten kinds of tumour, sorted by kind.

A sample has background mutations, more or fewer by kind and by chance, in genes that are hit more or less
often by chance, and mutations in the driver genes of its kind. A cell is a small integer, nearly always 0.
How many mutations there are is learned first, the drivers next; samples that tell neither are learned by
heart, late, and not again in the test. The constants below put the accuracy of each epoch and that of the
test where the published run has them; docs/candle.md says how closely.
The same seed gives the same bytes (on one kind of machine: which gene is hit rests on its exp).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.data.stand_in import Progress, case_id, scaled, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GENES = 28_204
VERSION = 2  # of the bytes; it names the folder, so an older stand-in is never taken for a newer one
FILES = {"P1B2.train.csv": 3_000, "P1B2.test.csv": 1_000}
TEXT = ("case_id", "cancer_type")
# Background hits of the kind's median sample at full width. Made up, and the same for every seed: else how
# well kinds are told apart would be chance. The first kind, which training never sees, has a middling number.
_HITS = {
    "BRCA": 60, "GBM": 81, "HNSC": 157, "KIRC": 44, "LGG": 20,
    "LUAD": 503, "LUSC": 243, "PRAD": 31, "THCA": 10, "others": 111,
}  # fmt: skip
KINDS = tuple(_HITS)  # in the order of the rows, which is that of the alphabet
_HITS_SD = 0.8  # of the natural logarithm, within a kind

_DRIVERS = 18  # a kind
_DRIVER_RATE = (0.05, 0.42)  # of the most frequent; driver k of n has (k / n) ** 3 of it at full width
_TWICE = 0.12  # of the hits count two, and
_THRICE = 0.03  # of the hits one more

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class _Kinds:
    """What is the same in every row."""

    weight: Array  # of each gene among the background hits; sums to 1
    driver_genes: np.ndarray[Any, np.dtype[np.int64]]  # kinds by drivers
    driver_rates: Array


def generate(out: Path, *, scale: float, seed: int = 0, progress: Progress | None = None) -> list[Path]:
    """Write the two files into `out` and return their paths; a file that is there already is kept."""
    files = {name: (rows + 1, partial(lines, name, scale=scale, seed=seed)) for name, rows in FILES.items()}
    return write(out, files, progress=progress)


def lines(name: str, *, scale: float, seed: int = 0) -> Iterator[bytes]:
    """The lines of one of the files, one at a time: first the header."""
    count = max(scaled(GENES, scale), _DRIVERS * len(KINDS))
    kinds = _make_kinds(count, seed=seed)
    yield (",".join([*TEXT, *(f"G{k:06d}" for k in range(count))]) + "\n").encode("ascii")
    rows = FILES[name]
    for row in range(rows):
        rng = np.random.default_rng([seed, 1, rows, row])
        kind = row * len(KINDS) // rows
        label = f"{case_id(rng)},{KINDS[kind]}"
        # Single digits all of them, so the line is made of bytes: digit, comma, digit, comma.
        line = np.full(2 * count, ord(","), np.uint8)
        line[0::2] = ord("0") + _values(kinds, rng, kind=kind, hits=_HITS[KINDS[kind]] * count / GENES)
        line[-1] = ord("\n")
        yield f"{label},".encode("ascii") + line.tobytes()


def _make_kinds(count: int, *, seed: int) -> _Kinds:
    rng = np.random.default_rng([seed, 0])
    weight = np.exp(rng.standard_normal(count))
    shape = (len(KINDS), _DRIVERS)
    order = (np.arange(_DRIVERS) + 0.5) / _DRIVERS
    # Fewer genes, fewer background hits, less that they tell: there the drivers tell more.
    rare = 1.0 + 2.0 * count / GENES
    return _Kinds(
        weight=weight / weight.sum(),
        driver_genes=rng.permutation(count)[: len(KINDS) * _DRIVERS].reshape(shape),
        driver_rates=rng.uniform(*_DRIVER_RATE, shape) * order**rare,
    )


def _values(kinds: _Kinds, rng: np.random.Generator, *, kind: int, hits: float) -> Any:
    count = len(kinds.weight)
    expected = hits * np.exp(_HITS_SD * rng.standard_normal())
    hit = rng.random(count) < np.minimum(1.0, expected * kinds.weight)
    hit[kinds.driver_genes[kind]] |= rng.random(_DRIVERS) < kinds.driver_rates[kind]
    more = rng.random(count)
    return hit * (1 + (more < _TWICE + _THRICE).astype(np.uint8) + (more < _THRICE).astype(np.uint8))
