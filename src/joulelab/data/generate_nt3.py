# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the NT3 files: made-up gene expression, in their size and format.

Rows are pairs of a normal and a tumour sample of one patient. A gene is silent, sporadic or expressed; its
values are log-normal around its own mean, moved by tissue, patient and library. A fifth of the genes answer
to tumour. The same seed gives the same bytes (on one kind of machine: the last of twelve digits rests on its
exp).
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GENES = 60_483
VERSION = 1  # of the bytes; it names the folder, so an older stand-in is never taken for a newer one
FILES = {"nt_train2.csv": 1_120, "nt_test2.csv": 280}

_TISSUES = 12
_SILENT = 0.378  # share of the genes; it sets the share of zeros, and so the size of the file
_SPORADIC = 0.20
_SHARE_TOLD = 0.20  # of the genes: tumour moves them
_EFFECT_SD = 1.5  # by this much of the natural logarithm
_LIBRARY_SD = 0.15
_PAIR_SD = 0.25
_TISSUE_SD = 0.7

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class _Genes:
    """What is the same in every row."""

    zero_share: Array
    mean_log: Array
    noise_sd: Array
    effect: Array
    tissue_shift: Array  # tissues by genes


def scaled_genes(scale: float) -> int:
    """The number of genes at `scale`."""
    return max(1, round(GENES * scale))


def generate(
    out: Path, *, scale: float, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> list[Path]:
    """Write the two files into `out` and return their paths; a file that is there already is kept.

    Each appears whole under its name or not at all, so two processes may do this at once.
    `progress` is called with the rows done and the rows in all.
    """
    out.mkdir(parents=True, exist_ok=True)
    total = sum(FILES.values())
    done = 0
    for name, rows in FILES.items():
        path = out / name
        if not path.exists():
            part = out / f".{name}.{uuid.uuid4().hex}.part"
            try:
                with part.open("wb", buffering=1 << 20) as file:
                    for index, line in enumerate(lines(name, scale=scale, seed=seed)):
                        file.write(line)
                        if progress is not None:
                            progress(done + index + 1, total)
                os.replace(part, path)  # noqa: PTH105  Path.replace is the same call; this one is known to be atomic
            finally:
                part.unlink(missing_ok=True)
        done += rows
    return [out / name for name in FILES]


def lines(name: str, *, scale: float, seed: int = 0) -> Iterator[bytes]:
    """The lines of one of the files, one at a time: label, then the genes."""
    genes = _make_genes(scaled_genes(scale), seed=seed)
    rows = FILES[name]
    order = np.random.default_rng([seed, 1, rows]).permutation(rows)
    for position in order.tolist():
        pair, tumour = divmod(position, 2)
        # Every row has its own generator: a row's values do not depend on which rows were made before it.
        of_pair = np.random.default_rng([seed, 2, rows, pair])
        of_row = np.random.default_rng([seed, 3, rows, position])
        yield _line(tumour, _values(genes, of_pair, of_row, tumour=tumour))


def _make_genes(count: int, *, seed: int) -> _Genes:
    rng = np.random.default_rng([seed, 0])
    # Exact shares, in random order: with few genes a drawn share would move the size of the file.
    place = (rng.permutation(count) + 0.5) / count
    silent, sporadic = place < _SILENT, (place >= _SILENT) & (place < _SILENT + _SPORADIC)
    zero_share = np.where(
        silent,
        rng.uniform(0.93, 1.0, count),
        np.where(sporadic, rng.beta(1.2, 1.2, count), rng.uniform(0.0, 0.03, count)),
    )
    mean_log = np.where(
        silent,
        rng.normal(6.2, 1.2, count),
        np.where(sporadic, rng.normal(7.2, 1.3, count), rng.normal(10.3, 1.8, count)),
    )
    told = rng.permutation(count) < round(_SHARE_TOLD * count)
    return _Genes(
        zero_share=zero_share,
        mean_log=mean_log,
        noise_sd=rng.uniform(0.5, 1.1, count),
        effect=np.where(told, rng.normal(0.0, _EFFECT_SD, count), 0.0),
        tissue_shift=rng.normal(0.0, _TISSUE_SD, (_TISSUES, count)),
    )


def _values(
    genes: _Genes, of_pair: np.random.Generator, of_row: np.random.Generator, *, tumour: int
) -> Array:
    count = len(genes.mean_log)
    tissue = int(of_pair.integers(_TISSUES))
    logs = genes.mean_log + genes.tissue_shift[tissue] + tumour * genes.effect
    logs += _PAIR_SD * of_pair.standard_normal(count)
    logs += genes.noise_sd * of_row.standard_normal(count) + _LIBRARY_SD * of_row.standard_normal()
    values: Array = np.where(of_row.random(count) < genes.zero_share, 0.0, np.exp(logs))
    return values


def _line(label: int, values: Array) -> bytes:
    cells = ",".join([f"{value:.12g}" if value else "0.0" for value in values.tolist()])
    return f"{label},{cells}\n".encode("ascii")
