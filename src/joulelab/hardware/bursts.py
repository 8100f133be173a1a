# SPDX-License-Identifier: Apache-2.0
"""Bursts of work at given instants: `python -m joulelab.hardware.bursts`, a process of its own.

A line of JSON on stdin is a train: {"spans_s": [[start, end], ...]} on the monotonic clock. The answer is one
line with the spans as they came to be. The first line out says what burns, or why nothing can.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

LAUNCHES = 2  # between two waits: enough to keep the card busy, few enough to stop in time
AIM_S = 0.0004  # length of one matrix product


def main() -> None:
    burn, words, cure = _burner()
    if burn is None:
        _say({"refused": words, "cure": cure})
        return
    _say({"ready": words})
    for line in sys.stdin:
        try:
            spans = [run(burn, start_s, end_s) for start_s, end_s in json.loads(line)["spans_s"]]
            _say({"spans_s": spans})
        except Exception as error:  # noqa: BLE001 - the one who waits must hear of it
            _say({"failed": f"{type(error).__name__}: {error}"})


def run(
    burn: Callable[[], None],
    start_s: float,
    end_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[float, float]:
    """One burst: when it really began and ended."""
    sleep(max(0.0, start_s - clock() - 0.001))
    while clock() < start_s:
        pass  # the last millisecond: sleeping is not that exact
    began_s = clock()
    while clock() < end_s:
        burn()
    return began_s, clock()


def _burner() -> tuple[Callable[[], None] | None, str, str]:
    try:
        import torch
    except ImportError as error:
        return None, f"torch cannot be imported: {error}", "pip install torch, built for this GPU"
    try:
        if not torch.cuda.is_available():
            return (
                None,
                f"torch {torch.__version__} sees no GPU",
                "install a torch that was built for this GPU",
            )
        return _products(torch), f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}", ""
    except Exception as error:  # noqa: BLE001 - drivers and their libraries raise anything
        words = str(error).partition("\n")[0]
        return None, f"torch cannot use the GPU: {words}", "look at `python -m torch.utils.collect_env`"


def _products(torch: Any) -> Callable[[], None]:
    """Matrix products, as large as the card does in some tenths of a millisecond."""
    size = 8192
    while True:
        a = torch.randn(size, size, device="cuda", dtype=torch.float16)
        b = torch.randn(size, size, device="cuda", dtype=torch.float16)
        out = torch.empty_like(a)
        for _ in range(3):
            torch.mm(a, b, out=out)
        torch.cuda.synchronize()
        start_s = time.monotonic()
        for _ in range(4):
            torch.mm(a, b, out=out)
        torch.cuda.synchronize()
        if (time.monotonic() - start_s) / 4 <= AIM_S or size <= 512:
            break
        size //= 2

    def burn() -> None:
        for _ in range(LAUNCHES):
            torch.mm(a, b, out=out)
        torch.cuda.synchronize()

    return burn


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
