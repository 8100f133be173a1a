# SPDX-License-Identifier: Apache-2.0
"""Each tool's window as a pair of calls.

Run in that tool's own environment, so nothing is imported at the top.
"""

from __future__ import annotations

from collections.abc import Callable

Pair = tuple[Callable[[], object], Callable[[], object], Callable[[], object]]


def clock() -> Pair:
    """The control: nothing but the two time stamps that any meter must take."""
    import time

    return time.monotonic_ns, time.monotonic_ns, lambda: None


def joulelab(*, synchronize: bool = False) -> Pair:
    from joulelab import Meter

    meter = Meter()
    meter.__enter__()
    windows: list[object] = []

    def begin() -> None:
        window = meter.window("step", synchronize=synchronize)
        window.__enter__()
        windows.append(window)

    def end() -> None:
        windows.pop().__exit__(None, None, None)  # type: ignore[attr-defined]

    return begin, end, meter.close


def zeus(*, synchronize: bool = False) -> Pair:
    from zeus.monitor import ZeusMonitor  # type: ignore[import-not-found]

    monitor = ZeusMonitor(gpu_indices=[0], cpu_indices=[])
    return (
        lambda: monitor.begin_window("step", sync_execution=synchronize),
        lambda: monitor.end_window("step", sync_execution=synchronize),
        lambda: None,
    )


def codecarbon() -> Pair:
    from codecarbon import OfflineEmissionsTracker  # type: ignore[import-not-found]

    tracker = OfflineEmissionsTracker(
        country_iso_code="FRA", save_to_file=False, log_level="critical", gpu_ids=[0]
    )
    names = iter(str(number) for number in range(10**9))
    return (lambda: tracker.start_task(next(names)), tracker.stop_task, tracker.stop)


def pair(tool: str) -> Pair:
    makers: dict[str, Callable[[], Pair]] = {
        "clock": clock,
        "joulelab": joulelab,
        "zeus": zeus,
        "codecarbon": codecarbon,
    }
    return makers[tool]()
