# SPDX-License-Identifier: Apache-2.0
"""A file of lines cut into blocks of whole lines, for threads that each take a run of blocks."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from joulelab.data.file_bytes import LONGEST
from joulelab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from joulelab.data.file_bytes import Source

A = TypeVar("A")
B = TypeVar("B")

_BYTES_A_THREAD = 1 << 20  # below this a thread costs more than it saves
_MOST = (
    1 << 20
)  # of a block, but for one line that is longer; what is copied is still in the cache when parsed
_IN_ALL = 32 << 20  # of all threads' blocks
_LEAST = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Block:
    """Whole lines: their bytes in the file, the number of the first (from 0), and how many they are."""

    start: int
    stop: int
    row: int
    lines: int


def cut(source: Source, first: int, *, threads: int | None, kernel: ModuleType) -> list[Sequence[Block]]:
    """The lines from byte `first` on, as a run of blocks a thread."""
    size = source.size - first
    if threads is not None and threads < 1:
        raise InputError(
            f"{threads} threads cannot read a file", cure="give 1 or more, or leave it out for all"
        )
    wanted = threads or min(len(os.sched_getaffinity(0)), 1 + size // _BYTES_A_THREAD)
    step = min(_MOST, max(_LEAST, _IN_ALL // wanted), max(1, -(-size // wanted)))
    starts = range(first, source.size, step)

    def count(pieces: Sequence[int]) -> list[tuple[int, int]]:
        """For each piece the newlines in it, and the position behind the last of them."""
        buffer = bytearray(step)
        data = np.frombuffer(buffer, np.uint8)
        found = []
        for start in pieces:
            here = min(step, source.size - start)
            source.read(buffer, start, here)
            newlines = int(kernel.count_newlines(data, 0, here))
            found.append((newlines, start + buffer.rfind(b"\n", 0, here) + 1))
        return found

    blocks: list[Block] = []
    begin, row = first, 0
    for newlines, behind in (piece for run in each(_runs(starts, wanted), count) for piece in run):
        if newlines:
            blocks.append(Block(start=begin, stop=behind, row=row, lines=newlines))
            begin, row = behind, row + newlines
    if any(block.stop - block.start > LONGEST for block in blocks) or source.size - begin > LONGEST:
        raise source.endless()
    if begin < source.size:  # the last line has no newline
        blocks.append(Block(start=begin, stop=source.size, row=row, lines=1))
    return _runs(blocks, wanted)


def texts(source: Source, run: Sequence[Block]) -> Iterator[tuple[Block, bytearray]]:
    """Each block with its bytes, at the front of a buffer that the next one overwrites."""
    buffer = bytearray(max(block.stop - block.start for block in run))
    for block in run:
        source.read(buffer, block.start, block.stop - block.start)
        yield block, buffer


def each(runs: Sequence[Sequence[A]], work: Callable[[Sequence[A]], B]) -> list[B]:
    """`work` of each run, in threads. All are waited for; the first error in the file's order is raised."""
    if len(runs) < 2:
        return [work(run) for run in runs]
    with ThreadPoolExecutor(len(runs) - 1) as pool:
        waiting = [pool.submit(work, run) for run in runs[1:]]
        # This thread would only wait, and it is on a processor already.
        first = work(runs[0])
    return [first, *(done.result() for done in waiting)]


def _runs(items: Sequence[A], count: int) -> list[Sequence[A]]:
    """At most `count` slices of about equal length."""
    bounds = [len(items) * k // count for k in range(count + 1)]
    return [items[a:b] for a, b in pairwise(bounds) if a < b]
