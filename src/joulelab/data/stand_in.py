# SPDX-License-Identifier: Apache-2.0
"""What the generators of stand-ins share: files that appear whole or not at all, and names."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

Progress = Callable[[int, int], None]
"""Called with the lines done and the lines in all."""

CANCERS = (
    "BLCA", "BRCA", "CESC", "COAD", "ESCA", "GBM", "HNSC", "KIRC", "KIRP", "LAML",
    "LGG", "LIHC", "LUAD", "LUSC", "OV", "PRAD", "SARC", "SKCM", "STAD", "THCA",
)  # fmt: skip


def write(
    out: Path,
    files: Mapping[str, tuple[int, Callable[[], Iterable[bytes]]]],
    *,
    progress: Progress | None = None,
) -> list[Path]:
    """Write each file, given as its number of lines and what makes them; one that is there is kept.

    Each appears whole under its name or not at all, so two processes may do this at once.
    """
    out.mkdir(parents=True, exist_ok=True)
    total = sum(lines for lines, _ in files.values())
    done = 0
    for name, (count, lines) in files.items():
        path = out / name
        if not path.exists():
            part = out / f".{name}.{uuid.uuid4().hex}.part"
            try:
                with part.open("wb", buffering=1 << 20) as file:
                    for index, line in enumerate(lines(), start=1):
                        file.write(line)
                        if progress is not None and (index % 64 == 0 or index == count):
                            progress(done + index, total)
                os.replace(part, path)  # noqa: PTH105  the name says that it is atomic
            finally:
                part.unlink(missing_ok=True)
        done += count
    return [out / name for name in files]


def scaled(full: int, scale: float) -> int:
    """The number that `full` becomes at `scale`; never none."""
    return max(1, round(full * scale))


def case_id(rng: np.random.Generator) -> str:
    """A name of a sample, 36 characters long."""
    return str(uuid.UUID(bytes=rng.bytes(16), version=4))
