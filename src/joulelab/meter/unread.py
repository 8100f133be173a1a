# SPDX-License-Identifier: Apache-2.0
"""Windows that have ended and whose figures nobody has read yet, as long as somebody holds them."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from joulelab.meter.window import Window

LEAST = 1024


class Unread:
    """A list of weak references, swept now and then: a weak dictionary costs a window some microseconds."""

    def __init__(self) -> None:
        self._references: list[weakref.ref[Window]] = []
        self._limit = LEAST
        self._sweeping = threading.Lock()

    def add(self, window: Window) -> None:
        references = self._references
        references.append(weakref.ref(window))
        if len(references) > self._limit:
            self._sweep()

    def take(self) -> dict[int, Window]:
        """Those that are held and unread, by number; from here on they are no longer kept here."""
        references, self._references = self._references, []
        held = [reference() for reference in references]
        return {window.number: window for window in held if window is not None and not window.settled}

    def _sweep(self) -> None:
        if not self._sweeping.acquire(blocking=False):
            return  # another thread is at it
        try:
            references, seen = self._references, len(self._references)
            kept = [r for r in references[:seen] if (w := r()) is not None and not w.settled]
            # One step of the interpreter: what other threads have appended meanwhile stays behind it.
            references[:seen] = kept
            self._limit = max(LEAST, 2 * len(kept))
        finally:
            self._sweeping.release()
