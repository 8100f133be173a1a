# SPDX-License-Identifier: Apache-2.0
"""A meter: what is measured, where the record goes, and the sampler behind it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from joulelab.errors import InputError, JouleLabError, SensorError
from joulelab.meter import owner
from joulelab.meter.figures import asked, measurement_of
from joulelab.meter.link import Link, connect, say
from joulelab.meter.runtime import VARIABLE, Runtime
from joulelab.meter.synchronize import Waiter
from joulelab.meter.unread import Unread
from joulelab.meter.window import Window

if TYPE_CHECKING:
    from joulelab.meter.session import Session
    from joulelab.records.layout import TrialFolder
    from joulelab.records.measurement import Measurement

AT_ONCE = 1000


class Meter:
    """Measures windows of this process on the devices of this machine.

    `out` is the folder of the record (None: no file), `devices` names devices (empty: what there is),
    `synchronize` waits for accelerators at both ends of each window. The sampler starts on entering, or with
    the first window.
    """

    def __init__(
        self, *, out: Path | str | None = None, devices: Sequence[str] = (), synchronize: bool = True
    ) -> None:
        self.out = Path(out).resolve() if out is not None else None
        self.devices = owner.names_of(devices)
        self.synchronize = synchronize
        self.link: Link | None = None
        self.unread = Unread()
        self.wait = Waiter()
        self._runtime: Runtime | None = None
        self._session: Session | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Meter:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        self.close()

    def open(self) -> Link:
        """The connection to the sampler, which is started now if need be.

        Never fails for want of a sensor.
        """
        with self._lock:
            if self.link is not None:
                return self.link
            folder = self._prepared()
            try:
                link = self.link = self._connect()
            except JouleLabError:
                if folder is not None:
                    from joulelab.meter import session

                    session.refused(folder)
                raise
            owner.adopt(self)
        if folder is not None:
            from joulelab.meter.session import Session

            self._session = Session(folder, self)
        return link

    def window(self, name: str, *, synchronize: bool | None = None) -> Window:
        """A window of this meter, to be entered with `with`, or to decorate a function."""
        return Window(self, name, synchronize=self.synchronize if synchronize is None else synchronize)

    def device_list(self) -> list[dict[str, Any]]:
        """uid, name, kind, source, scope, simulated and part_of of each device."""
        link = self.open()
        try:
            return list(link.ask({"op": "devices"})["devices"])
        except SensorError:
            return link.devices

    def problems(self) -> list[dict[str, str]]:
        """Sensors that are missing or denied: vendor, what and cure of each."""
        return self.open().problems

    def idle(self, seconds: float) -> Measurement:
        """Do nothing for so long, in a window named "idle"."""
        with self.window("idle") as window:
            time.sleep(seconds)
        return window.measurement

    def between(self, start_ns: int, end_ns: int) -> Measurement:
        """The cost of any span of this machine's monotonic clock that the sampler still remembers."""
        if end_ns < start_ns:
            raise InputError(
                f"a span that ends {start_ns - end_ns} ns before it starts", cure="give start, then end"
            )
        return asked(self.open(), {"op": "between", "start": start_ns, "end": end_ns})

    def flush(self) -> None:
        """All windows that have ended are in the record when this returns."""
        try:
            self.open().ask({"op": "flush"})
        except SensorError:
            return

    def environment(self) -> dict[str, str]:
        """What makes a child process join this meter's sampler."""
        runtime = self.open().runtime
        return {VARIABLE: str(runtime.path)} if runtime is not None else {}

    def close(self) -> None:
        """Resolve all windows.

        The sampler has gone when this returns, unless other processes are measured by it.
        """
        session, self._session = self._session, None
        if session is not None:
            session.end()
        with self._lock:
            link, self.link, self._runtime = self.link, None, None
        if link is None:
            return
        self._read_unread(link)
        link.close()
        if session is not None:
            session.write()

    def after_fork(self) -> None:
        """In a child process: the connection is the parent's; the first window makes one of its own."""
        self._lock = threading.Lock()
        self.unread = Unread()
        self.wait = Waiter()  # a device of the parent's must not be touched here
        self._session = None
        if self.link is not None:
            self.link.abandon()
            self.link = None

    def _prepared(self) -> TrialFolder | None:
        if self.out is None:
            return None
        # Imported here: who writes no record needs none of what a record is made of.
        from joulelab.meter import session

        return session.prepared(self.out, devices=self.devices)

    def _connect(self) -> Link:
        try:
            link = connect(out=self.out, devices=self.devices, joined=self._runtime)
        except SensorError as error:
            if self.devices:
                raise
            return _silent(error.message)
        except OSError as error:
            return _silent(str(error))
        self._runtime = link.runtime
        return link

    def _read_unread(self, link: Link) -> None:
        """Windows whose figures nobody has read yet, but somebody still holds, get them now."""
        windows = self.unread.take()
        numbers = list(windows)
        try:
            if numbers:
                link.ask({"op": "flush"})
            for first in range(0, len(numbers), AT_ONCE):
                found = link.ask({"op": "windows", "ids": numbers[first : first + AT_ONCE]})["windows"]
                for number, figures in found.items():
                    windows[int(number)].settle(measurement_of(figures))
        except SensorError:
            return  # each of them says so itself when it is read


def _silent(why: str) -> Link:
    say(f"no energy is measured: {why}")
    return Link(why)
