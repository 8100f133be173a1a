# SPDX-License-Identifier: Apache-2.0
"""Where batches of pictures come from: a table on the device, or a mapped file, sent there in time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch

SHARE = 0.25  # of the device's free memory that a table of pictures may take
AHEAD = 3  # batches on their way


@dataclass(frozen=True)
class Batch:
    """Rows of a table of pictures on the device, their labels, and where they stand in the epoch."""

    pictures: torch.Tensor
    rows: torch.Tensor
    labels: torch.Tensor
    part: slice


class Source:
    """Everything is on the device already: a batch is a list of rows, and nothing is waited for.

    `rows` are those of the table that hold a picture, if not all do: taking the others out would copy it.
    """

    def __init__(
        self,
        pictures: torch.Tensor,
        labels: torch.Tensor,
        *,
        device: torch.device,
        rows: torch.Tensor | None = None,
    ) -> None:
        self.device = device
        self.labels = labels.to(device)
        self._rows = torch.arange(len(labels)) if rows is None else rows
        self._table = self._put(pictures)

    def _put(self, pictures: torch.Tensor) -> torch.Tensor:
        return pictures.to(self.device)

    def __len__(self) -> int:
        return len(self._rows)

    def batches(self, order: torch.Tensor, size: int) -> Iterator[Batch]:
        """Batches of the pictures in `order`, counted from nought; the last batch is perhaps smaller."""
        here = self._rows[order].to(self.device)
        for first in range(0, len(order), size):
            rows = here[first : first + size]
            yield Batch(self._table, rows, self.labels[rows], slice(first, first + len(rows)))


class Streamed(Source):
    """Too large for the device: a thread gathers the rows of coming batches and sends them meanwhile."""

    def _put(self, pictures: torch.Tensor) -> torch.Tensor:
        return pictures

    def batches(self, order: torch.Tensor, size: int) -> Iterator[Batch]:
        coming: queue.Queue[_Sent | BaseException | None] = queue.Queue(AHEAD)
        leave = threading.Event()
        sender = threading.Thread(
            target=self._send, args=(self._rows[order], size, coming, leave), daemon=True
        )
        sender.start()
        here = torch.arange(size, device=self.device)
        try:
            while isinstance(sent := coming.get(), _Sent):
                pictures = sent.arrived()
                rows = here[: len(pictures)]
                yield Batch(pictures, rows, self.labels[sent.rows], sent.part)
            if isinstance(sent, BaseException):
                raise sent
        finally:
            leave.set()
            while sender.is_alive():
                _drain(coming)
                sender.join(0.01)

    def _send(
        self,
        order: torch.Tensor,
        size: int,
        coming: queue.Queue[_Sent | BaseException | None],
        leave: threading.Event,
    ) -> None:
        try:
            on_gpu = self.device.type == "cuda"
            stream = torch.cuda.Stream(self.device) if on_gpu else None  # type: ignore[no-untyped-call]
            shape = (size, *self._table.shape[1:])
            # One more than can be on their way, and one that is being filled.
            buffers = [torch.empty(shape, dtype=torch.uint8, pin_memory=on_gpu) for _ in range(AHEAD + 2)]
            free: list[torch.cuda.Event | None] = [None] * len(buffers)
            for number, first in enumerate(range(0, len(order), size)):
                rows = order[first : first + size]
                turn = number % len(buffers)
                if (event := free[turn]) is not None:
                    event.synchronize()  # this thread waits, and no other
                buffer = buffers[turn][: len(rows)]
                torch.index_select(self._table, 0, rows, out=buffer)
                with torch.cuda.stream(stream) if stream is not None else nullcontext():
                    # Without a device to send to, the buffer would be filled again under its reader.
                    pictures = buffer.to(self.device, non_blocking=True) if on_gpu else buffer.clone()
                    there = rows.to(self.device)
                    if stream is not None:
                        free[turn] = event = torch.cuda.Event()  # type: ignore[no-untyped-call]
                        event.record(stream)
                if leave.is_set():
                    return
                coming.put(_Sent(pictures, there, slice(first, first + len(rows)), free[turn]))
            coming.put(None)
        except BaseException as error:  # noqa: BLE001  it is raised again where the batches are used
            coming.put(error)


@dataclass(frozen=True)
class _Sent:
    pictures: torch.Tensor
    rows: torch.Tensor
    part: slice
    event: torch.cuda.Event | None

    def arrived(self) -> torch.Tensor:
        """The pictures, once the device has them: the device waits for that, and this thread does not."""
        if self.event is not None:
            now = torch.cuda.current_stream(self.pictures.device)
            now.wait_event(self.event)
            # Their memory belongs to the other stream: it must not be given out again while this one reads.
            self.pictures.record_stream(now)
            self.rows.record_stream(now)
        return self.pictures


def _drain(coming: queue.Queue[_Sent | BaseException | None]) -> None:
    try:
        while True:
            coming.get_nowait()
    except queue.Empty:
        return


def source_for(
    pictures: torch.Tensor, labels: torch.Tensor, *, rows: torch.Tensor, device: torch.device
) -> Source:
    """The table on the device where there is room for it; elsewhere a stream."""
    if device.type == "cuda" and pictures.numel() > SHARE * torch.cuda.mem_get_info(device)[0]:
        return Streamed(pictures, labels, rows=rows, device=device)
    return Source(pictures, labels, rows=rows, device=device)
