# SPDX-License-Identifier: Apache-2.0
"""Wait for the work that was given to an accelerator.

Finds a torch that is already loaded; never imports it.
"""

from __future__ import annotations

import sys
from typing import Any

BACKENDS = ("cuda", "xpu", "mps")


def synchronize() -> None:
    """Wait for the current device, if one is in use. A build of torch drives one kind of device."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    for name in BACKENDS:
        backend = getattr(torch, name, None)
        # A torch that is still being imported has no backend yet, or one without these functions.
        if backend is not None and _in_use(name, backend):
            wait = getattr(backend, "synchronize", None)
            if wait is not None:
                wait()
                return


def _in_use(name: str, backend: Any) -> bool:
    if name == "mps":
        # It has no question for "initialised"; memory that it holds is the sign.
        held = getattr(backend, "current_allocated_memory", None)
        available = getattr(getattr(sys.modules["torch"], "backends", None), "mps", None)
        return bool(held and available is not None and available.is_available() and held())
    initialised = getattr(backend, "is_initialized", None)
    return bool(initialised is not None and initialised())
