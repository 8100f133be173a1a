# SPDX-License-Identifier: Apache-2.0
"""A recorded power curve, played from its start as if it were a device; at its end it starts again."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from joulelab.errors import InputError
from joulelab.hardware.device import Device, Found, Traits
from joulelab.hardware.loads import Load, Piece, Trace

RECORD_HEADER = "time_ns,device,power_w"
PLAIN_HEADER = "time_s,power_w"


class Replay(Device):
    """One curve of the file. Time zero is the moment of opening."""

    source = "integrated"
    simulated = True

    def __init__(
        self,
        *,
        power: Load,
        uid: str = "gpu:replay",
        step_s: float = 0.1,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.load = power
        self.uid = uid
        self.kind = uid.partition(":")[0]
        self.name = f"replay of {uid.partition(':')[2]}"
        self.scope = f"simulated: a recording of {power.period_s:.3g} s, played in a loop"
        self.traits = Traits(power_period_s=step_s, power_max_w=power.max_w)
        self._clock = clock
        self._opened_ns = clock()

    @classmethod
    def find(cls, argument: str = "") -> Found:
        if not argument:
            raise InputError("replay: no file is named", cure="name one: replay:power.csv")
        devices = []
        for uid, pieces in read(Path(argument)).items():
            step_s = statistics.median(p[0] for p in pieces)
            # Not the recorded uid itself: that board may sit in this very machine.
            kind, _, rest = uid.rpartition(":")
            devices.append(cls(power=Load(pieces), uid=f"{kind or 'gpu'}:replay-{rest}", step_s=step_s))
        return Found(tuple(devices))

    def truth_j(self, start_ns: int, end_ns: int) -> float:
        return self.load.integral_j((start_ns - self._opened_ns) / 1e9, (end_ns - self._opened_ns) / 1e9)

    def power_w(self) -> float:
        return self.load.power_w((self._clock() - self._opened_ns) / 1e9)


def read(path: Path) -> dict[str, list[Piece]]:
    """The curve of each device in a record's power.csv, or of the one of a plain `time_s,power_w` file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"replay: cannot read '{path}': {error}", cure="name a power.csv") from error
    rows = [(n, line.strip()) for n, line in enumerate(lines, start=1)]
    rows = [(n, row) for n, row in rows if row and not row.startswith("#")]
    header = rows[0][1].replace(" ", "") if rows else ""
    if header == RECORD_HEADER and not lines[-1].endswith("\n"):
        del rows[-1]  # torn while it was written
    if header not in {RECORD_HEADER, PLAIN_HEADER}:
        raise InputError(
            f"replay: '{path}' begins with '{header[:60]}'",
            cure=f"legal headers: {RECORD_HEADER} or {PLAIN_HEADER}",
        )
    curves: dict[str, list[tuple[float, float]]] = {}
    for number, row in rows[1:]:
        cells = row.split(",")
        try:
            if header == RECORD_HEADER:
                time_ns, uid, power_w = cells
                curves.setdefault(uid, []).append((int(time_ns) / 1e9, float(power_w)))
            else:
                time_s, power_w = cells
                curves.setdefault(f"gpu:{path.stem}", []).append((float(time_s), float(power_w)))
        except ValueError as error:
            what = f"replay: {path}:{number}: '{row}' is not '{header}'"
            raise InputError(what, cure="mend the line") from error
    if not curves:
        raise InputError(f"replay: '{path}' holds no power", cure="name a file with a line of power in it")
    return {uid: _pieces(curve, means=header == RECORD_HEADER) for uid, curve in curves.items()}


def _pieces(curve: list[tuple[float, float]], *, means: bool) -> list[Piece]:
    """A record's line is the mean since the line before it; a plain file's line holds until the next one."""
    times_s, powers_w = [t for t, _ in curve], [p for _, p in curve]
    if not means or len(curve) == 1:
        return list(Trace(times_s=times_s, powers_w=powers_w).pieces)
    # The first line tells of a time that began before the file did: only its stamp is used.
    lengths_s = [b - a for a, b in pairwise(times_s)]
    if min(lengths_s) <= 0.0:
        raise InputError("replay: the times of a device do not rise", cure="sort the lines by time")
    return [(s, w, w) for s, w in zip(lengths_s, powers_w[1:], strict=True)]
