# SPDX-License-Identifier: Apache-2.0
"""A window: two time stamps in the training process, and figures that are worked out elsewhere."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from joulelab.errors import InputError
from joulelab.meter.client import EXCEPTION
from joulelab.meter.figures import asked
from joulelab.meter.owner import NUMBERS, meter_for
from joulelab.meter.ring import END, START

if TYPE_CHECKING:
    from joulelab.meter.link import Link
    from joulelab.meter.meter import Meter
    from joulelab.records.measurement import Measurement

P = ParamSpec("P")
R = TypeVar("R")

_current: ContextVar[Window | None] = ContextVar("joulelab_window", default=None)


class Window:
    """What happens between entering and leaving. Figures are fetched when they are first read."""

    __slots__ = (
        "__weakref__",
        "_flags",
        "_measurement",
        "_meter",
        "_synchronize",
        "end_ns",
        "link",
        "name",
        "number",
        "parent",
        "start_ns",
    )

    def __init__(self, meter: Meter, name: str, *, synchronize: bool) -> None:
        if not isinstance(name, str):
            # `@measure` without parentheses would take the function for the name, and never call it.
            raise InputError(
                f"the name of a window is text, not {type(name).__name__}",
                cure='as a decorator write @measure() or @measure("name"), with parentheses',
            )
        self.name = name
        self._meter = meter
        self._synchronize = synchronize
        self.link: Link | None = None
        self.parent: Window | None = None
        self.number = 0
        self.start_ns = 0
        self.end_ns = 0
        self._flags = 0
        self._measurement: Measurement | None = None

    def __enter__(self) -> Window:
        if self.start_ns and not self.end_ns:
            raise InputError(
                f"window '{self.name}' is open already", cure="make another one: each is entered by itself"
            )
        link = self._meter.link or self._meter.open()
        self.link = link
        parent = _current.get()
        self.parent = parent
        _current.set(self)
        self._measurement = None
        self.end_ns = 0
        number = self.number = next(NUMBERS)
        what = START | link.name(self.name) << 8
        above = parent.number if parent is not None and parent.link is link else 0
        if self._synchronize:
            self._meter.wait()
        start_ns = self.start_ns = time.monotonic_ns()
        link.put(what, window=number, parent=above, thread=get_ident(), time_ns=start_ns)
        return self

    def enter_aside(self) -> None:
        """Begin without becoming the parent of the windows that follow."""
        around = _current.get()
        self.__enter__()
        _current.set(around)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del error, trace
        flags = EXCEPTION if kind is not None else 0
        if self._synchronize:
            # After an exception the device may be in an error state of its own: the user's exception goes
            # first.
            if flags:
                _wait_quietly(self._meter)
            else:
                self._meter.wait()
        end_ns = self.end_ns = time.monotonic_ns()
        link = self.link
        assert link is not None
        self._flags = flags
        link.put(END | flags << 8, window=self.number, parent=0, thread=0, time_ns=end_ns)
        if _current.get() is self:
            # Windows may overlap: those around this one that have ended meanwhile are passed over.
            above = self.parent
            while above is not None and above.end_ns:
                above = above.parent
            _current.set(above)
        self.parent = None
        self._meter.unread.add(self)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate: each call is a window of its own, named as this one or else as the function."""
        name = self.name or getattr(function, "__qualname__", "call")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InputError(
                f"'{name}' is a generator: between its values other code runs, and would be counted too",
                cure="put `with measure(...)` around the loop that uses it, or inside it around the work",
            )
        meter, synchronize = self._meter, self._synchronize
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def measured_async(*args: Any, **kwargs: Any) -> Any:
                with Window(meter, name, synchronize=synchronize):
                    return await function(*args, **kwargs)

            return measured_async  # type: ignore[return-value]

        @functools.wraps(function)
        def measured(*args: P.args, **kwargs: P.kwargs) -> R:
            with Window(meter, name, synchronize=synchronize):
                return function(*args, **kwargs)

        return measured

    def so_far(self) -> Measurement:
        """The figures of an open window up to now; of one that has ended, its figures."""
        if not self.start_ns:
            raise InputError(
                f"window '{self.name}' was not entered", cure="use it as `with measure(...) as window:`"
            )
        if self.end_ns:
            return self.measurement
        return self._asked("so_far", time.monotonic_ns())

    def until(self, time_ns: int) -> Measurement:
        """The figures up to an instant of this machine's monotonic clock; asked for soon after it.

        Another thread may ask while the window is open, ends, or has ended: its own figures stay as they are.
        """
        if not self.start_ns:
            raise InputError(
                f"window '{self.name}' was not entered", cure="use it as `with measure(...) as window:`"
            )
        if not self.end_ns:
            found = self._asked("so_far", time_ns)
            if found.energy_j is not None or not self.end_ns:
                return found
        if self.end_ns <= time_ns:
            return self.measurement
        # It has ended meanwhile, and its start may lie longer ago than the sampler remembers.
        return self.measurement.less(self._meter.between(time_ns, self.end_ns))

    @property
    def settled(self) -> bool:
        return self._measurement is not None

    def settle(self, measurement: Measurement) -> None:
        """The figures are known."""
        self._measurement = measurement

    @property
    def measurement(self) -> Measurement:
        """The figures.

        The first reading asks the sampler for what is still missing; later ones cost nothing.
        """
        if self._measurement is None:
            if not self.end_ns:
                raise InputError(
                    f"window '{self.name}' has not ended", cure="ask for .so_far() while it runs"
                )
            self._measurement = self._asked("window", self.end_ns)
        return self._measurement

    def _asked(self, operation: str, end_ns: int) -> Measurement:
        assert self.link is not None
        request = {
            "op": operation,
            "id": self.number,
            "start": self.start_ns,
            "end": end_ns,
            "flags": self._flags,
        }
        return asked(self.link, request)

    @property
    def time_s(self) -> float:
        return self.measurement.time_s

    @property
    def energy_j(self) -> float | None:
        return self.measurement.energy_j

    @property
    def energy_error_j(self) -> float | None:
        return self.measurement.energy_error_j

    @property
    def energy_j_by_device(self) -> dict[str, float]:
        return self.measurement.energy_j_by_device

    @property
    def power_w(self) -> float | None:
        return self.measurement.power_w

    @property
    def source(self) -> str:
        return self.measurement.source

    @property
    def resolution_s(self) -> float:
        return self.measurement.resolution_s

    @property
    def flags(self) -> tuple[str, ...]:
        return self.measurement.flags


def measure(
    name: str = "", *, out: Path | str | None = None, devices: Sequence[str] = (), synchronize: bool = True
) -> Window:
    """Measure a block (`with measure("epoch") as m:`) or each call of a function (`@measure()`).

    With `out` a record is kept in that folder; without it no file is written.
    """
    return Window(meter_for(out, devices), name, synchronize=synchronize)


def _wait_quietly(meter: Meter) -> None:
    try:
        meter.wait()
    except Exception:  # noqa: BLE001 - the user's own exception goes first
        return
