# SPDX-License-Identifier: Apache-2.0
"""The sampler: `python -m joulelab.meter.sampler FOLDER`.

Reads the sensors so that no measured process has to.

It leaves its parent at once, is told nothing by signals, and ends when the last process that it measures has
gone.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from joulelab.errors import JouleLabError, RecordError
from joulelab.hardware.find import find
from joulelab.meter.answer import answer
from joulelab.meter.book import Book, Entry, Figures
from joulelab.meter.checked import open_channel
from joulelab.meter.client import Client
from joulelab.meter.record import Record, describe
from joulelab.meter.runtime import VISIBLE, Runtime, Settings, sweep

if TYPE_CHECKING:
    from joulelab.hardware.device import Found

DRAIN_NS = 100_000_000  # rings are looked at this often
FLUSH_NS = 500_000_000
PRUNE_NS = 10_000_000_000
LONELY_NS = 20_000_000_000  # nobody has come for so long after the start: nobody will
READY_NS = 500_000_000  # newcomers are greeted when every sensor has answered, or after this


class Sampler:
    """One loop, one thread: wait until something is due or somebody asks."""

    def __init__(self, runtime: Runtime, settings: Settings, *, found: Found) -> None:
        self.runtime = runtime
        self.channels = [open_channel(device) for device in found.devices]
        self.problems = [{"vendor": p.vendor, "what": p.what, "cure": p.cure} for p in found.problems]
        out = Path(settings.out) if settings.out else None
        self.record = Record(out, spool=runtime.spool, channels=self.channels)
        self.book = Book(self.channels, finished=self._finished)
        self.clients: list[Client] = []
        self.began_ns = time.monotonic_ns()
        self._owner = settings.owner
        self._host = socket.gethostname()
        self._met = False
        self._selector = selectors.DefaultSelector()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        runtime.socket.unlink(missing_ok=True)
        self._socket.bind(str(runtime.socket))
        self._socket.listen(64)
        self._socket.setblocking(False)
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._unseen: list[str] = []  # devices that a client uses and nobody measures, in words
        self._curves = [channel.curve for channel in self.channels]
        self._drain_ns = self._flush_ns = self._prune_ns = 0

    def ready(self, now_ns: int) -> bool:
        return now_ns - self.began_ns > READY_NS or all(channel.ready for channel in self.channels)

    def describe(self) -> list[dict[str, object]]:
        return describe(self.channels)

    def run(self) -> None:
        """Until everybody has gone."""
        while not self._finished_with_everything():
            now_ns = time.monotonic_ns()
            for key, _ in self._selector.select(max(0, self._due_ns(now_ns) - now_ns) * 1e-9):
                self._event(key)
            self.step(time.monotonic_ns())

    def step(self, now_ns: int) -> None:
        """Read what is due and pass on what is known."""
        for channel in self.channels:
            if channel.due_ns <= now_ns:
                channel.work(now_ns)
                now_ns = time.monotonic_ns()
        if now_ns >= self._drain_ns:
            full = self.drain()
            self._drain_ns = now_ns + (0 if full else DRAIN_NS)
        self._exchange()
        self.book.settle(now_ns)
        self._greet(now_ns)
        self._dismiss()
        if now_ns >= self._flush_ns:
            self.record.power()
            self.record.flush()
            self._flush_ns = now_ns + FLUSH_NS
        if now_ns >= self._prune_ns:
            for channel in self.channels:
                channel.forget(now_ns)
            self._prune_ns = now_ns + PRUNE_NS

    def drain(self) -> bool:
        """Take what the rings hold; True if one held more than a look takes."""
        counts = [client.drain(self.book) for client in self.clients]
        return max(counts, default=0) >= 20_000

    def close(self) -> None:
        """Resolve what is left, and leave nothing behind."""
        self.book.settle(time.monotonic_ns(), force=True)
        self.record.power()
        self.record.close()
        for client in self.clients:
            client.close(self._selector)
        self._selector.close()
        self._socket.close()
        for channel in self.channels:
            channel.device.close()

    def _due_ns(self, now_ns: int) -> int:
        due_ns = min([channel.due_ns for channel in self.channels], default=now_ns + DRAIN_NS)
        if self.book.deadline_ns is not None:
            due_ns = min(due_ns, self.book.deadline_ns)
        return min(due_ns, self._drain_ns)

    def _event(self, key: selectors.SelectorKey) -> None:
        if key.fileobj is self._socket:
            channel, _ = self._socket.accept()
            channel.settimeout(5.0)
            newcomer = Client(channel, host=self._host)
            self.clients.append(newcomer)
            self._selector.register(channel, selectors.EVENT_READ, newcomer)
            return
        client: Client = key.data
        if key.fileobj is client.socket:
            try:
                data = client.socket.recv(1 << 16)
            except OSError:
                data = b""
            client.received += data
            if data:
                self._requests(client)
                return
            self._selector.unregister(client.socket)
            if client.pidfd is not None and not client.leaving:
                if not client.may_write():
                    # Another program runs in it (exec): it cannot end these windows, but it may come to be
                    # measured, so the sampler stays.
                    self._interrupted(client)
                return  # else its process may still write into the ring
        else:
            self._selector.unregister(key.fileobj)
        self._lost(client)

    def _requests(self, client: Client) -> None:
        while b"\n" in client.received:
            line, _, rest = bytes(client.received).partition(b"\n")
            client.received = bytearray(rest)
            try:
                answer(self, client, json.loads(line))
            except (ValueError, KeyError, TypeError, OSError) as error:
                client.reply({"error": f"{type(error).__name__}: {error}"})

    def met(self, client: Client) -> None:
        """A client has said who it is: from here on its end is watched."""
        self._met = True
        if client.pidfd is not None:
            self._selector.register(client.pidfd, selectors.EVENT_READ, client)
        self.watch()

    def compare(self, client: Client, visible: str | None) -> None:
        """Does a newcomer use cards that are hidden from this process? Then every figure says so."""
        ours = os.environ.get(VISIBLE)
        has_cards = any(c.device.kind == "gpu" and not c.device.simulated for c in self.channels)
        if ours is None or not (has_cards or any(VISIBLE in problem["what"] for problem in self.problems)):
            return
        if visible is None or not _entries(visible) <= _entries(ours):
            who = f"rank {client.rank}" if client.rank is not None else f"process {client.pid}"
            theirs = "not set" if visible is None else f"'{visible}'"
            flag = f"{VISIBLE} of {who} is {theirs}, and only '{ours}' is measured"
            if flag not in self._unseen:
                self._unseen.append(flag)

    def watch(self) -> None:
        """Tell the estimates whose work to count."""
        pids = sorted({self._owner, *(client.pid for client in self.clients if client.pid)})
        for channel in self.channels:
            channel.device.watch(pids)

    def waiting(self) -> bool:
        """Has somebody come at the last moment?"""
        for key, _ in self._selector.select(0):
            self._event(key)
        return bool(self.clients)

    def _lost(self, client: Client) -> None:
        """The process has gone: what it wrote before is still in the ring."""
        if not client.gone:
            client.gone = True
            self._interrupted(client)

    def _interrupted(self, client: Client) -> None:
        now_ns = time.monotonic_ns()
        client.drain_all(self.book)
        client.interrupt(self.book, now_ns)
        self.book.hurry(now_ns, now_ns)

    def _greet(self, now_ns: int) -> None:
        if self.ready(now_ns):
            for client in self.clients:
                client.greet()

    def _dismiss(self) -> None:
        """Let go of clients of which nothing is left to write down."""
        for client in [c for c in self.clients if (c.gone or c.leaving) and not c.entries]:
            last = len(self.clients) == 1
            if client.leaving:
                self.record.power()
                self.record.flush()
                client.reply({"last": last, "dropped": client.dropped, "fault": self.record.fault})
            client.close(self._selector)
            self.clients.remove(client)
            self.watch()

    def _exchange(self) -> None:
        """Has a channel turned to another curve?"""
        curves = [channel.curve for channel in self.channels]
        if any(old is not new for old, new in zip(self._curves, curves, strict=True)):
            self._curves = curves
            self.book.again()
            self.record.restart_power()

    def _finished(self, entry: Entry, figures: Figures) -> None:
        flags = figures["flags"]
        assert isinstance(flags, list)
        flags += self._unseen
        if self.record.fault:
            flags.append(self.record.fault)
        if not entry.labels:
            return  # somebody asked for a span; it is nobody's window
        process, _, number = str(entry.labels["id"]).partition("-")
        labels = {**entry.labels, "end_ns": entry.end_ns}
        self.record.window(labels, figures, process=int(process), number=int(number))
        for client in self.clients:
            if client.pid == int(process):
                client.entries.pop(int(number), None)

    def _finished_with_everything(self) -> bool:
        if self.clients:
            return False
        if self._met:
            return True
        if time.monotonic_ns() - self.began_ns > LONELY_NS:
            return True
        return not Path(f"/proc/{self._owner}").exists() and Path("/proc/self").exists()


def main(folder: str) -> None:
    """Start in the background; the first process returns when the sampler listens, or says why not."""
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as pipe:
            answered = pipe.read()
        sys.stdout.write(
            answered or '{"error": "SensorError", "message": "the sampler died at its start", "cure": ""}'
        )
        sys.stdout.flush()
        os._exit(0)
    os.close(reader)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    runtime = Runtime(Path(folder))
    try:
        settings = runtime.read()
        sampler = Sampler(runtime, settings, found=find(settings.devices))
    except JouleLabError as error:
        _tell(writer, {"error": type(error).__name__, "message": error.message, "cure": error.cure})
        os._exit(1)
    except OSError as error:
        _tell(writer, {"error": RecordError.__name__, "message": str(error), "cure": ""})
        os._exit(1)
    _detach()
    _tell(writer, {"pid": os.getpid()})
    sweep()
    try:
        _serve(sampler, runtime)
    except Exception:  # noqa: BLE001 - whatever it is, the reason must outlive this process
        (runtime.path / "sampler.log").write_text(traceback.format_exc(), encoding="utf-8")
        os._exit(1)
    os._exit(0)


def _serve(sampler: Sampler, runtime: Runtime) -> None:
    while True:
        sampler.run()
        # Newcomers hold the lock while they connect: whoever has not come by now will start another sampler.
        with runtime.locked():
            if sampler.waiting():
                continue
            sampler.close()
            runtime.remove()
            return


def _entries(visible: str) -> set[str]:
    return {entry.strip() for entry in visible.split(",")} - {"", "-1"}


def _detach() -> None:
    """Terminals and pipes of the measured process are not ours to hold open."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def _tell(writer: int, message: dict[str, object]) -> None:
    os.write(writer, json.dumps(message).encode())
    os.close(writer)


if __name__ == "__main__":
    main(sys.argv[1])
