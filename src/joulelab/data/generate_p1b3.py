# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the P1B3 files: made-up growth of tumour cells under drugs, and what describes both.

A drug has eight hidden numbers, a cell line four; together they set the dose at which the cells stop growing,
and a part that no table tells is added. The tables show the hidden numbers through noise. Gaps are written as
`na`, `-` or nothing, and a few columns are all gaps. The same seed gives the same bytes (on one kind of
machine: the last digit of a growth rests on its exp).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from joulelab.data.stand_in import Progress, scaled, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GENES, DESCRIPTORS = 25_722, 3_809  # those that are left when the columns of gaps are dropped
DRUGS = 65_700  # tested at full scale
VERSION = 1  # of the bytes; it names the folder, so an older stand-in is never taken for a newer one
RESPONSE, EXPRESSION, DRUG_TABLE = (
    "P1B3_dose_response.csv",
    "P1B3_cellline_expressions.tsv",
    "P1B3_drug_descriptors.tsv",
)
TEST_CELLS, TEST_DRUGS = "P1B3_test_celllines.txt", "P1B3_test_drugs.txt"

_CELLS = 60  # of which the last has no expression
_TEST_CELLS = 4
_DESCRIBED = 0.507  # share of the drugs that have descriptors
_TESTED_ONLY = 0.092  # share of those that are kept for the test
_FOURTH_DOSE = 0.29  # of the drugs were tested at a fourth dose
_GAPS = 0.02  # of the descriptors
_DEAD_AT = (0.2, 0.5, 0.8)  # columns of nothing but gaps, as a share of the width
_DRUG_SIZE, _CELL_SIZE = 8, 4
_NOISE = 28.0  # of the growth, in per cent
_FIRST_NSC = 100_003  # six digits, like most
_ORGANS = ("BR", "CNS", "CO", "LC", "LE", "ME", "OV", "PR", "RE")

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class _World:
    """What no file says."""

    drugs: Array  # drugs by hidden numbers
    cells: Array
    weight: Array  # what makes a drug strong on all cells
    untold: Array  # of each drug, in no table
    described: np.ndarray[Any, np.dtype[np.int64]]  # drugs that have descriptors


def generate(out: Path, *, scale: float, seed: int = 0, progress: Progress | None = None) -> list[Path]:
    """Write the five files into `out` and return their paths; a file that is there already is kept."""
    world = _make_world(scaled(DRUGS, scale), seed=seed)
    count = len(world.described)
    files = {
        RESPONSE: (1 + len(world.drugs), partial(_response, world, seed=seed)),
        EXPRESSION: (_CELLS, partial(_expression, world, scale=scale, seed=seed)),
        DRUG_TABLE: (1 + count, partial(_descriptors, world, scale=scale, seed=seed)),
        TEST_CELLS: (1 + _TEST_CELLS, partial(_test_cells)),
        TEST_DRUGS: (1 + len(_test_drugs(world)), partial(_drug_names, world)),
    }
    return write(out, files, progress=progress)


def cell_name(cell: int) -> str:
    return f"{_ORGANS[cell % len(_ORGANS)]}:CL-{cell + 1:03d}"


def nsc(drug: int) -> int:
    """The number that a drug goes by."""
    return _FIRST_NSC + 7 * drug


def _make_world(drugs: int, *, seed: int) -> _World:
    rng = np.random.default_rng([seed, 0])
    weight = rng.standard_normal(_DRUG_SIZE)
    # An exact share in random order, two drugs at least: with few drugs a drawn share would move everything.
    described = np.sort(rng.permutation(drugs)[: max(2, round(_DESCRIBED * drugs))])
    return _World(
        drugs=rng.standard_normal((drugs, _DRUG_SIZE)),
        cells=rng.standard_normal((_CELLS, _CELL_SIZE)),
        weight=weight / np.sqrt((weight**2).sum()),
        untold=rng.standard_normal(drugs),
        described=described,
    )


def _response(world: _World, *, seed: int) -> Iterator[bytes]:
    """The header, then for each drug all its lines at once."""
    yield b"NSC,CELLNAME,LOG_CONCENTRATION,GROWTH\n"
    names = [cell_name(cell) for cell in range(_CELLS)]
    growths = [str(growth) for growth in range(-100, 271)]
    for drug in range(len(world.drugs)):
        rng = np.random.default_rng([seed, 1, drug])
        doses = (-4, -5, -6, -7) if rng.random() < _FOURTH_DOSE else (-4, -5, -6)
        stops_at = -3.25 - 0.7 * (world.drugs[drug] * world.weight).sum() - 0.9 * world.untold[drug]
        stops_at = stops_at - 0.12 * (world.cells * world.drugs[drug, :_CELL_SIZE]).sum(1)
        growth = 108.0 - 200.0 / (1.0 + np.exp(-2.4 * (np.array(doses) - stops_at[:, None])))
        growth += _NOISE * rng.standard_normal(growth.shape)
        printed = np.rint(np.clip(growth, -100.0, 270.0)).astype(np.int64) + 100
        number = nsc(drug)
        yield "".join(
            [
                f"{number},{name},{dose}.0,{growths[k]}\n"
                for name, row in zip(names, printed.tolist(), strict=True)
                for dose, k in zip(doses, row, strict=True)
            ]
        ).encode("ascii")


def _expression(world: _World, *, scale: float, seed: int) -> Iterator[bytes]:
    mixing, names = _mixing(scaled(GENES, scale), _CELL_SIZE, "gene", seed=[seed, 2])
    yield ("\t".join(["CellLine", *names]) + "\n").encode("ascii")
    for cell in range(_CELLS - 1):
        rng = np.random.default_rng([seed, 3, cell])
        values = _seen(world.cells[cell], mixing, rng)
        yield _line(cell_name(cell).replace(":", "."), values, gaps=_no_gaps(len(values)))


def _descriptors(world: _World, *, scale: float, seed: int) -> Iterator[bytes]:
    mixing, names = _mixing(scaled(DESCRIPTORS, scale), _DRUG_SIZE, "D", seed=[seed, 4])
    yield ("\t".join(["NAME", *names]) + "\n").encode("ascii")
    for drug in world.described.tolist():
        rng = np.random.default_rng([seed, 5, drug])
        values = _seen(world.drugs[drug], mixing, rng)
        gaps = _no_gaps(len(values)) | (rng.random(len(values)) < _GAPS)
        yield _line(str(nsc(drug)), values, gaps=gaps)


def _mixing(count: int, size: int, prefix: str, *, seed: list[int]) -> tuple[Array, list[str]]:
    """How much each column shows of each hidden number, and their names; dead columns are among them."""
    count += len(_DEAD_AT)
    names = [f"{prefix}{k:05d}" for k in range(count)]
    return np.random.default_rng(seed).standard_normal((size, count)) / np.sqrt(size), names


def _seen(hidden: Array, mixing: Array, rng: np.random.Generator) -> Array:
    values: Array = rng.standard_normal(mixing.shape[1])
    for number, shown in zip(hidden.tolist(), mixing, strict=True):
        # Not a matrix product: its sums depend on the library's choice of threads and instructions.
        values += number * shown
    return values


def _no_gaps(count: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Where the dead columns are."""
    gaps = np.zeros(count, np.bool_)
    gaps[[round(share * (count - 1)) for share in _DEAD_AT]] = True
    return gaps


_THOUSANDTHS = [f"{k / 1000:.3f}" for k in range(-9999, 10_000)]
_GAP_TOKENS = ("na", "-", "")


def _line(name: str, values: Array, *, gaps: np.ndarray[Any, np.dtype[np.bool_]]) -> bytes:
    places = np.rint(1000.0 * np.clip(values, -9.9, 9.9)).astype(np.int64) + 9999
    cells = [_THOUSANDTHS[k] for k in places.tolist()]
    for column in np.flatnonzero(gaps).tolist():
        cells[column] = _GAP_TOKENS[column % 3]
    return ("\t".join([name, *cells]) + "\n").encode("ascii")


def _test_cells() -> Iterator[bytes]:
    yield b"CELLNAME\n"
    for cell in range(_TEST_CELLS):
        yield f"{cell_name(cell)}\n".encode("ascii")


def _test_drugs(world: _World) -> list[int]:
    """The drugs kept for the test: every eleventh or so of those that have descriptors."""
    step = 1.0 / _TESTED_ONLY
    count = max(1, round(_TESTED_ONLY * len(world.described)))
    return [int(world.described[int(k * step)]) for k in range(count)]


def _drug_names(world: _World) -> Iterator[bytes]:
    yield b"NSC\n"
    for drug in _test_drugs(world):
        yield f"{nsc(drug)}\n".encode("ascii")
