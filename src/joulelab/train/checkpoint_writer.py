# SPDX-License-Identifier: Apache-2.0
"""A thread that writes while the training goes on; never two at once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Writer:
    """At most one piece of work at a time. What went wrong in it is said, and ends nothing."""

    def __init__(self, *, say: Callable[[str], None]) -> None:
        self._say = say
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], None]) -> None:
        """Call it when not `busy`."""
        assert not self.busy, "two checkpoints at once"
        self._thread = threading.Thread(target=self._run, args=(work,), name="checkpoint")
        self._thread.start()

    def wait(self, *, limit_s: float | None = None) -> None:
        """Until the last one has been written, or has failed, or the limit is reached."""
        if self._thread is not None:
            self._thread.join(limit_s)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  a training does not end because its checkpoint could not be written
            self._say(f"no checkpoint was written, and the training goes on: {type(error).__name__}: {error}")
