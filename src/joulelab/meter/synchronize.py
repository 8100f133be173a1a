# SPDX-License-Identifier: Apache-2.0
"""Wait for the work that was given to an accelerator.

Finds a torch that is already loaded; never imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

BACKENDS = ("cuda", "xpu", "mps")


class Waiter:
    """Waits for the current device, if one is in use. A build of torch drives one kind of device.

    Once a device was found in use it is only waited for: after a step of training nothing of what a window
    does is in the processor's caches any more, so that each look at one more object shows.
    """

    __slots__ = ("_wait",)

    def __init__(self) -> None:
        self._wait: Callable[[], object] | None = None

    def __call__(self) -> None:
        wait = self._wait
        if wait is None:
            wait = self._wait = _found()
        if wait is not None:
            wait()


def _found() -> Callable[[], object] | None:
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    for name in BACKENDS:
        backend = getattr(torch, name, None)
        # A torch that is still being imported has no backend yet, or one without these functions.
        if backend is not None and _in_use(name, backend):
            wait: Callable[[], object] | None = getattr(backend, "synchronize", None)
            if wait is not None:
                return wait
    return None


def _in_use(name: str, backend: Any) -> bool:
    if name == "mps":
        # It has no question for "initialised"; memory that it holds is the sign.
        held = getattr(backend, "current_allocated_memory", None)
        available = getattr(getattr(sys.modules["torch"], "backends", None), "mps", None)
        return bool(held and available is not None and available.is_available() and held())
    initialised = getattr(backend, "is_initialized", None)
    return bool(initialised is not None and initialised())
