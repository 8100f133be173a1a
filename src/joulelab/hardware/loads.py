# SPDX-License-Identifier: Apache-2.0
"""Power as a function of time, with its exact integral: the truth that fakes and replays are read from.

Every load is a train of straight pieces that repeats for ever, so energy since time zero has a closed form
and any process that reads the same clock computes the same truth.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

from joulelab.errors import InputError

Piece = tuple[float, float, float]  # seconds, watts at its start, watts at its end


def noise(seed: int, k: int) -> float:
    """A number in [0, 1) that depends on `seed` and `k` alone (splitmix64)."""
    mask = 0xFFFFFFFFFFFFFFFF
    x = (seed * 0x9E3779B97F4A7C15 + (k + 1) * 0xD1B54A32D192ED03) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return float((x ^ (x >> 31)) >> 11) / float(1 << 53)


class Load:
    """A repeating train of straight pieces. `phase_s` moves it later in time."""

    def __init__(self, pieces: Iterable[Piece], *, phase_s: float = 0.0) -> None:
        self.pieces = tuple(p for p in pieces if p[0] > 0.0)
        if not self.pieces or any(p[1] < 0.0 or p[2] < 0.0 for p in self.pieces):
            raise InputError(
                "a load needs at least one piece of positive length, and no negative power",
                cure="give lengths above 0 s and powers of at least 0 W",
            )
        self.phase_s = phase_s
        self._starts_s = (0.0, *accumulate(p[0] for p in self.pieces))
        self._starts_j = (0.0, *accumulate(p[0] * (p[1] + p[2]) / 2.0 for p in self.pieces))
        self.period_s = self._starts_s[-1]
        self.period_j = self._starts_j[-1]
        self.min_w = min(min(p[1], p[2]) for p in self.pieces)
        self.max_w = max(max(p[1], p[2]) for p in self.pieces)

    def power_w(self, t_s: float) -> float:
        _, place, x_s = self._locate(t_s)
        length_s, from_w, to_w = self.pieces[place]
        return from_w + (to_w - from_w) * x_s / length_s

    def integral_j(self, a_s: float, b_s: float) -> float:
        """Joules from `a_s` to `b_s`; whole periods are taken apart so that long spans lose no digits."""
        a_turns, a_j = self._since_turn(a_s)
        b_turns, b_j = self._since_turn(b_s)
        return (b_turns - a_turns) * self.period_j + (b_j - a_j)

    def mean_w(self, a_s: float, b_s: float) -> float:
        return self.integral_j(a_s, b_s) / (b_s - a_s) if b_s > a_s else self.power_w(b_s)

    def _since_turn(self, t_s: float) -> tuple[float, float]:
        turns, place, x_s = self._locate(t_s)
        length_s, from_w, to_w = self.pieces[place]
        return turns, self._starts_j[place] + x_s * (from_w + (to_w - from_w) * x_s / length_s / 2.0)

    def _locate(self, t_s: float) -> tuple[float, int, float]:
        turns, x_s = divmod(t_s - self.phase_s, self.period_s)
        place = min(bisect_right(self._starts_s, x_s), len(self.pieces)) - 1
        return turns, place, min(x_s - self._starts_s[place], self.pieces[place][0])


class Constant(Load):
    def __init__(self, power_w: float = 100.0) -> None:
        super().__init__([(1.0, power_w, power_w)])


class Square(Load):
    def __init__(
        self,
        *,
        high_w: float = 690.0,
        low_w: float = 125.0,
        high_s: float = 0.160,
        low_s: float = 0.040,
        phase_s: float = 0.0,
    ) -> None:
        super().__init__([(high_s, high_w, high_w), (low_s, low_w, low_w)], phase_s=phase_s)


class Steps(Load):
    """Another random power every `step_s`; the sequence starts again after `count` steps."""

    def __init__(
        self,
        *,
        min_w: float = 125.0,
        max_w: float = 700.0,
        step_s: float = 0.05,
        seed: int = 0,
        count: int = 4096,
    ) -> None:
        powers = [min_w + (max_w - min_w) * noise(seed, k) for k in range(count)]
        super().__init__([(step_s, w, w) for w in powers])


class Ramp(Load):
    """From one power to the other in `rise_s` and back in `fall_s`."""

    def __init__(
        self, *, from_w: float = 100.0, to_w: float = 700.0, rise_s: float = 10.0, fall_s: float = 0.0
    ) -> None:
        super().__init__([(rise_s, from_w, to_w), (fall_s, to_w, from_w)])


class Spikes(Load):
    """One spike at a random place of every `every_s`; the places start again after `count` spikes."""

    def __init__(
        self,
        *,
        base_w: float = 125.0,
        peak_w: float = 700.0,
        spike_s: float = 0.005,
        every_s: float = 0.1,
        seed: int = 0,
        count: int = 1024,
    ) -> None:
        if spike_s > every_s:
            raise InputError(
                f"spike_s = {spike_s} is longer than every_s = {every_s}", cure="make the spikes shorter"
            )
        pieces: list[Piece] = []
        for k in range(count):
            before_s = noise(seed, k) * (every_s - spike_s)
            after_s = every_s - spike_s - before_s
            pieces += [(before_s, base_w, base_w), (spike_s, peak_w, peak_w), (after_s, base_w, base_w)]
        super().__init__(pieces)


class Trace(Load):
    """A recording: each power holds until the next time, the last for the mean step, then all repeats."""

    def __init__(self, *, times_s: Sequence[float], powers_w: Sequence[float], phase_s: float = 0.0) -> None:
        steps_s = [b - a for a, b in pairwise(times_s)]
        if len(times_s) != len(powers_w) or not times_s or any(s <= 0.0 for s in steps_s):
            raise InputError(
                f"a trace of {len(times_s)} times and {len(powers_w)} powers cannot be played",
                cure="give as many powers as times, at least one, the times rising",
            )
        last_s = sum(steps_s) / len(steps_s) if steps_s else 1.0
        super().__init__(
            [(s, w, w) for s, w in zip([*steps_s, last_s], powers_w, strict=True)], phase_s=phase_s
        )


def limited(load: Load, power_w: float) -> Load:
    """The same load, cut off at `power_w`."""
    pieces: list[Piece] = []
    for length_s, from_w, to_w in load.pieces:
        below, above = min(from_w, to_w), max(from_w, to_w)
        if below < power_w < above:
            # A slope that crosses the limit becomes a slope and a level piece.
            crossing_s = length_s * (power_w - from_w) / (to_w - from_w)
            pieces += [
                (crossing_s, min(from_w, power_w), power_w),
                (length_s - crossing_s, power_w, min(to_w, power_w)),
            ]
        else:
            pieces.append((length_s, min(from_w, power_w), min(to_w, power_w)))
    return Load(pieces, phase_s=load.phase_s)


SHAPES: dict[str, type[Load]] = {
    "constant": Constant,
    "square": Square,
    "steps": Steps,
    "ramp": Ramp,
    "spikes": Spikes,
    "trace": Trace,
}
