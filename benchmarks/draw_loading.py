# SPDX-License-Identifier: Apache-2.0
"""The README's figure: CPU seconds to load a CSV file of NT3's shape, drawn from a result of loading.py.

python benchmarks/draw_loading.py benchmarks/results/loading-*.json > docs/loading.svg
"""

from __future__ import annotations

import html
import json
import statistics
import sys
from pathlib import Path
from typing import Any

NAMES = {
    "pandas": "pandas.read_csv, as published",
    "polars": "polars",
    "pyarrow": "pyarrow",
    "loadtxt": "numpy.loadtxt",
    "ours_numba": "JouleLab, numba",
    "ours_native": "JouleLab, C",
    "floor": "reading and writing the bytes",
}
ROW, LEFT, RIGHT, TOP = 24, 230, 150, 44
WIDTH = 760
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#24292f}"
    ".bar{fill:#8c959f}.ours{fill:#1a7f37}.faint{fill:#57606a}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.bar{fill:#6e7681}.ours{fill:#3fb950}.faint{fill:#9198a1}}"
)


def svg(result: dict[str, Any], shape: str) -> str:
    """One bar a method, its median and range in figures beside it. Parameters in, text out."""
    about = result["shapes"][shape]
    readings = {name: [r["cpu_s"] for r in about["readings"][name]] for name in NAMES}
    longest = max(max(values) for values in readings.values())
    scale = (WIDTH - LEFT - RIGHT) / longest
    title = f"CPU seconds to load {about['bytes'] / 1e6:.0f} MB of {shape.upper()}'s shape into float32"
    lines = [text(8, 20, title, "")]
    for row, (name, values) in enumerate(readings.items()):
        y = TOP + row * ROW
        middle = statistics.median(values)
        kind = "ours" if name.startswith("ours") else "bar"
        figures = f"{middle:.3g} s ({min(values):.3g} to {max(values):.3g})"
        lines.append(text(8, y + 15, NAMES[name], ""))
        lines.append(
            f'<rect class="{kind}" x="{LEFT}" y="{y + 3}" width="{middle * scale:.1f}" height="{ROW - 8}"/>'
        )
        lines.append(text(LEFT + middle * scale + 6, y + 15, figures, ""))
    count = len(next(iter(readings.values())))
    where = f"{result['date']}, {result['machine']}, {result['cores']} shared cores"
    foot = f"{where}, one thread, median (range) of n = {count}"
    height = TOP + len(readings) * ROW + 26
    lines.append(text(8, height - 10, foot, "faint"))
    said = ", ".join(f"{NAMES[n]} {statistics.median(v):.3g} s" for n, v in readings.items())
    spoken = html.escape(f"{title}: {said}")
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
    return f'{head} aria-label="{spoken}"><style>{STYLE}</style>\n' + "\n".join(lines) + "\n</svg>\n"


def text(x: float, y: float, words: str, kind: str) -> str:
    marked = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y}"{marked}>{html.escape(words)}</text>'


if __name__ == "__main__":
    sys.stdout.write(svg(json.loads(Path(sys.argv[1]).read_text()), "nt3"))
