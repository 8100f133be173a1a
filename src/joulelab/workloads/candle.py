# SPDX-License-Identifier: Apache-2.0
"""What the CANDLE Pilot 1 workloads share: their files, how they are read, how layers begin."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from joulelab.data import LABELLED_LOADERS
from joulelab.errors import InputError
from joulelab.records import plugin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from joulelab.data.labelled import Floats, Labelled
    from joulelab.workloads.workload import Setting

SPLIT_SEED = 2017  # what the benchmarks give every generator they have

_PUBLISHED = (
    "the files are published with the CANDLE Pilot 1 benchmarks (the ECP-CANDLE project, Argonne National "
    "Laboratory, and the NCI-DOE collaboration's model and data clearinghouse)"
)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The files of a benchmark: for each name, in words, what lies in it."""

    name: str
    version: int  # of the stand-in
    files: Mapping[str, str]


def folder(setting: Setting, layout: Layout) -> Path:
    """The folder that the user named, or that of the stand-in."""
    given = str(setting.parameters["data"])
    if given:
        return Path(given)
    scale = float(setting.parameters["scale"])
    return setting.data / f"{layout.name}-v{layout.version}-scale{scale:g}-seed0"


def files(setting: Setting, layout: Layout) -> list[Path]:
    """The paths of the files in their order; an InputError says which are missing and what they are."""
    where = folder(setting, layout)
    missing = [name for name in layout.files if not (where / name).is_file()]
    if missing:
        words = "; ".join(f"no {name} ({layout.files[name]})" for name in missing)
        raise InputError(
            f"{where}: {words}",
            cure=f"put them there: {_PUBLISHED}; or leave `data` empty for a stand-in, or make one: "
            f"joulelab data generate {layout.name} --out FOLDER",
        )
    return [where / name for name in layout.files]


def sizes(setting: Setting, layout: Layout) -> str:
    """The files and how long each is, for comparing machines that have copies of their own."""
    return ", ".join(f"{path.name} of {path.stat().st_size:,} bytes" for path in files(setting, layout))


def read(
    setting: Setting,
    path: Path,
    *,
    text: Sequence[str],
    numbers: Sequence[str] | None = None,
    separator: str = ",",
) -> Labelled:
    """One file through the loader that the knob names."""
    name = str(setting.knobs["loader"])
    load = plugin.load(LABELLED_LOADERS, name, what="loader for files with labels")
    threads = int(setting.knobs.get("threads", 0)) or None
    labelled: Labelled = load(path, text=text, numbers=numbers, separator=separator, threads=threads)
    return labelled


def complete(
    path: Path, values: Floats, *, device: torch.device, text: int = 0, header: bool = True
) -> torch.Tensor:
    """`values` on the device, or an InputError that says where one is missing. `text` columns stand in front.

    What follows is done there, too: a GPU goes over a table a hundred times as fast as the host.
    """
    table = torch.from_numpy(values).to(device)
    # A sum is NaN where any of its terms is, and needs no table of its own.
    gaps = [] if bool(table.sum(1).isfinite().all()) else (~table.isfinite()).nonzero()[:1].tolist()
    for row, column in gaps:
        raise InputError(
            f"{path}: row {row + 1 + header}, column {text + column + 1}: "
            f"{table[row, column].item()} is not a finite number",
            cure="fill the gap: this benchmark has no rule for missing values",
        )
    return table


class Ending:
    """Which epoch is the last: the one that the knob says, or the first to end after `stop_after`."""

    def __init__(self, setting: Setting) -> None:
        self.epochs = int(setting.knobs["epochs"])
        self.stop_after_s = int(setting.parameters.get("stop_after", 0))
        self.over = False
        self._add, self._device = setting.add, setting.device
        self._epoch = 0
        self._begun_s = math.inf

    def begin(self, epoch: int) -> None:
        """Called when the training of an epoch begins; the clock runs from the first."""
        self._epoch = epoch
        self._begun_s = min(self._begun_s, time.monotonic())

    def decide(self) -> bool:
        """Called once at the end of an epoch; `over` keeps the answer."""
        late = 0 < self.stop_after_s <= time.monotonic() - self._begun_s
        if self.stop_after_s:
            # Clocks differ: one worker that went on alone would wait for the others forever.
            late = bool(self._add(torch.tensor([float(late)], device=self._device)).item())
        self.over = late or self._epoch >= self.epochs
        return self.over

    def state(self) -> dict[str, float]:
        """The time of the training so far; clocks of two machines have nothing in common."""
        return {"elapsed_s": max(0.0, time.monotonic() - self._begun_s)}

    def restore(self, state: Mapping[str, float]) -> None:
        self._begun_s = time.monotonic() - state["elapsed_s"]


def marks(setting: Setting, layout: Layout) -> dict[str, tuple[int, int]]:
    """Length of each file and when it was written last."""
    found = {path.name: path.stat() for path in files(setting, layout)}
    return {name: (status.st_size, status.st_mtime_ns) for name, status in found.items()}


def enough(path: Path, rows: int) -> None:
    """An InputError where a tenth of the rows of `path`, which the benchmark validates on, is none."""
    if rows < 10:
        raise InputError(
            f"{path} has {rows} rows, of which a tenth is held out for validation: that is none",
            cure="give the whole file: 10 rows or more",
        )


def unit_range_(tables: Sequence[torch.Tensor], *, fitted_on: Sequence[torch.Tensor]) -> None:
    """Each column of `tables` to 0..1, in place, by its range in `fitted_on`; a constant column becomes 0."""
    low = torch.stack([table.amin(0) for table in fitted_on]).amin(0)
    width = torch.stack([table.amax(0) for table in fitted_on]).amax(0).sub_(low)
    width[width == 0] = 1.0
    for table in tables:
        table.sub_(low).div_(width)


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """What autocast left in half precision, in fp32: losses are taken there. fp64 stays what it is."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def narrowed(width: int, scale: float, *, least: int) -> int:
    """The width of a layer at `scale`: with its square root, as in NT3."""
    return width if scale >= 1.0 else max(least, round(width * math.sqrt(scale)))


def glorot_(net: nn.Module) -> None:
    """What Keras does to a dense layer unless told otherwise; torch's own start is another."""
    for module in net.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
