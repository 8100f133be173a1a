# SPDX-License-Identifier: Apache-2.0
"""What a calibration saw and concluded, for people and for programs."""

from __future__ import annotations

import dataclasses
import json as json_library
from typing import TYPE_CHECKING

from joulelab.report.doctor import problems, time_words

if TYPE_CHECKING:
    from joulelab.hardware.calibrate import Calibration, CardReport
    from joulelab.hardware.judge import Row


def json(calibration: Calibration) -> str:
    return json_library.dumps(dataclasses.asdict(calibration), indent=2)


def text(calibration: Calibration) -> str:
    lines: list[str] = []
    for card in calibration.cards:
        lines += [*_card(card), ""]
    return "\n".join([*lines, *problems(calibration.problems)]).rstrip()


def _card(card: CardReport) -> list[str]:
    lines = [f"{card.uid}  {card.name}  ({card.seconds:.0f} s, load: {card.load or 'none'})"]
    for name, cost in card.costs.items():
        period_s = card.periods_s.get(name)
        moves = f"moves every {time_words(period_s)}; " if period_s else ""
        lines.append(
            f"  {name}: {moves}a read costs {time_words(cost.cpu_s)} of CPU, {time_words(cost.wall_s)} in all"
        )
    if card.rows:
        names = list(card.rows[0].fields_w)
        lines.append("  " + "".join(f"{word:>18}" for word in ("bursts", "counter W", "buffer W", *names)))
        lines += [_row(row, names) for row in card.rows]
    if card.verdict is not None:
        lines += [f"  {words}" for words in card.verdict.words]
        kept = f"kept in {card.kept}: meters on this machine use it" if card.kept else "not kept"
        lines.append(f"  {kept}")
    else:
        lines.append("  NO VERDICT: meters go on with what is assumed for this kind of card")
    return lines + [f"  ATTENTION: {words}" for words in card.troubles]


def _row(row: Row, names: list[str]) -> str:
    values = [row.counter_w, row.buffer_w, *(row.fields_w.get(name) for name in names)]
    cells = [f"{value:.1f}" if value is not None else "-" for value in values]
    return "  " + "".join(f"{cell:>18}" for cell in (row.train, *cells))
