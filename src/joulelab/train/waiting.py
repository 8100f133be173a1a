# SPDX-License-Identifier: Apache-2.0
"""How long the training waited for its next batch: two time stamps each, and nothing asked of the device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


class Waiting:
    """Time in `next(batch)`. What the device does with a batch afterwards belongs into `Workload.place`."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._total_ns = 0

    @property
    def time_s(self) -> float:
        """Over all epochs."""
        return self._total_ns * 1e-9

    def restore(self, time_s: float) -> None:
        """Go on from what was waited before."""
        self._total_ns = round(time_s * 1e9)

    def over(self, batches: Iterable[T]) -> Iterator[T]:
        """The batches, and the time until each of them, and until the source says that there are no more."""
        clock = self._clock
        since_ns = clock()
        for batch in batches:
            self._total_ns += clock() - since_ns
            yield batch
            since_ns = clock()
        self._total_ns += clock() - since_ns
