# SPDX-License-Identifier: Apache-2.0
"""When what happened in this worker. The base class takes no notice.

A training is told apart into spans that follow each other (data, forward, backward, update), and collectives:
what all workers do together, each with the moment at which this worker was ready for it and the one at which
it had the result. Which worker the others waited for shows when the records of all are laid side by side.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Moment = int | torch.cuda.Event  # nanoseconds of the host, or something that the device will have reached


class Trace:
    """Nobody asked."""

    def begin_epoch(self, epoch: int) -> None:
        """Here the clocks of host and device are laid side by side."""

    def begin_step(self, step: int) -> None:
        """From the wait for the next batch to the moved weights."""

    def mark(self, name: str) -> None:
        """What went before since the last mark was this."""

    def bucket(self, number: int, size: int) -> Callable[[], None] | None:
        """A bucket of gradients is ready; what is returned is called when all have its mean."""
        del number, size
        return None

    @contextmanager
    def collective(self, name: str) -> Iterator[None]:
        """Something that all workers do together, outside of steps."""
        del name
        yield

    def end_epoch(self) -> None:
        """What was kept is written down; the device may be waited for."""


class Timeline(Trace):
    """Every `every`-th step, and every collective outside of steps."""

    def __init__(
        self,
        write: Callable[[dict[str, Any]], None],
        *,
        every: int,
        device: torch.device,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._write, self._every, self._clock = write, every, clock
        self._on_device = device.type == "cuda"
        self._epoch = self._step = 0
        self._sampled = False
        self._since: Moment = 0
        self._kept: list[tuple[dict[str, Any], Moment, Moment]] = []
        self._base: tuple[int, torch.cuda.Event] | None = None
        self._sequence = 0

    def begin_epoch(self, epoch: int) -> None:
        self._epoch = epoch
        if self._on_device:
            event = _reached()
            event.synchronize()
            self._base = self._clock(), event

    def begin_step(self, step: int) -> None:
        self._step, self._sampled = step, step % self._every == 0
        if self._sampled:
            self._since = self._now()

    def _now(self) -> Moment:
        if not self._on_device:
            return self._clock()
        return _reached()

    def mark(self, name: str) -> None:
        if self._sampled:
            since, self._since = self._since, self._now()
            self._keep({"kind": "span", "name": name}, since, self._since)

    def bucket(self, number: int, size: int) -> Callable[[], None] | None:
        if not self._sampled:
            return None
        line = {"kind": "collective", "name": f"allreduce {number}", "size_b": size}
        ready = self._now()
        return lambda: self._keep(line, ready, self._now())

    def _keep(self, line: dict[str, Any], start: Moment, end: Moment) -> None:
        # Called by threads of the framework, too: appending is one step.
        self._kept.append(({**line, "epoch": self._epoch, "step": self._step}, start, end))

    @contextmanager
    def collective(self, name: str) -> Iterator[None]:
        self._sequence += 1
        line = {"kind": "collective", "name": name, "number": self._sequence}
        start_ns = self._clock()
        try:
            yield
        finally:
            self._write({**line, "start_ns": start_ns, "end_ns": self._clock()})

    def end_epoch(self) -> None:
        if self._on_device and self._kept:
            torch.cuda.synchronize()
        kept, self._kept = self._kept, []
        for line, start, end in kept:
            self._write({**line, "start_ns": self._at(start), "end_ns": self._at(end)})
        self._sampled = False

    def _at(self, moment: Moment) -> int:
        if isinstance(moment, int):
            return moment
        assert self._base is not None
        began_ns, event = self._base
        return began_ns + round(float(event.elapsed_time(moment)) * 1e6)


def _reached() -> torch.cuda.Event:
    """What the device will have reached when all that it has been told so far is done."""
    event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event
